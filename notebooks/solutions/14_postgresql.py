def answer(claim):
    free = (
        "  AND state IN ('pending', 'running') AND (lease_until IS NULL OR lease_until <= :now)\n"
    )
    return claim.replace("RETURNING", free + "RETURNING")
