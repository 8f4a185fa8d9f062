def answer(lab, run):
    while "outline" not in (run["value"] or ""):
        value = f"{run['value']}, outline" if run["value"] else "outline"
        if lab.commit_run("A", value, revision=run["revision"]) == "lease_lost":
            return
        run = lab.workers["A"].store.runs()[0]
    lab.ack("A")
