"""The questions of the self-test, as data.

Thirteen are about the lessons 01 to 12, at least one about each. Six are the second article's self-test
(its third question asks for two things, so it is two here), and four are those that it expects from an
interviewer.

The choices are known by what the evidence may come to; many of the wrong ones are what the file would
say if a guard were missing.
"""

from leaselab.self_test import evidence
from leaselab.self_test.choice import MultipleChoice

CLAIM, END, GENERATION = "The claim", "The end of a lease", "The generation"
OUTSIDE, HEARTBEAT, WRITE = "Outside the file", "The heartbeat", "The fenced write"
LIMIT, SCHEDULES = "The attempt limit", "Every schedule"
LESSON, ARTICLE, INTERVIEWER = "lesson", "article", "interviewer"

REQUEST, *TWICE = evidence.TRUTHS

QUESTIONS = (
    MultipleChoice(
        CLAIM,
        "01_claim_and_finish",
        LESSON,
        text="A claims a task at t=1 with a lease of 30, and its finish is accepted at t=8. At t=40 "
        "B claims. What does the file answer?",
        choices={
            (): "Accepted: the lease of t=1 has ended at t=31, so B takes over.",
            ("expiry",): "Refused by `expiry`: the row still holds A's lease.",
            ("final",): "Refused by `final`: a task that is done is never claimed again.",
            ("one_per_run",): "Refused by `one_per_run`: the run has had its task.",
        },
        expected=("final",),
        why="A finish clears the lease, so no lease is left that could keep B away. The state does it: "
        "`done` is not among the states that may be claimed.",
        run=evidence.claim_after_done,
    ),
    MultipleChoice(
        CLAIM,
        "06_atomic_claim",
        ARTICLE,
        text="Two workers look for a task with a SELECT and take it with an UPDATE by its id. Both "
        "find the same task, and both are told that it is theirs. Which change rules that out?",
        choices={
            "look again": "Each looks a second time, just before its UPDATE.",
            "one statement": "The SELECT moves into the UPDATE, which then takes what it finds.",
            "short lease": "A lease lasts 5 instead of 30, so that it ends before the other's begins.",
            "generation": "The finish compares the generation, so that only one can finish.",
        },
        expected="one statement",
        why="Between two statements there is room for a statement of somebody else, however late the "
        "last look is. Within one statement there is none. (The generation keeps the row in order: only "
        "one finish is accepted. But by then both have worked.)",
        run=evidence.repairs_of_two_steps,
    ),
    MultipleChoice(
        CLAIM,
        "06_atomic_claim",
        LESSON,
        text="A run has two tasks. A claims the first at t=1 with a lease of 30 and finishes it at "
        "t=8. B claims at t=2, at t=7, at t=8 just after the finish, and at t=31, until it is given the "
        "second task. When is that?",
        choices={
            2: "At t=2: the second task has no lease.",
            8: "At t=8: the first task is finished.",
            31: "At t=31: the lease of A's claim ends.",
            None: "Not at all: A has begun the run, so it is A's.",
        },
        expected=8,
        why="`one_per_run` asks whether another task of the run is running under a live lease. The "
        "finish has cleared that lease, so nobody waits for its end.",
        run=evidence.next_task_of_the_run,
    ),
    MultipleChoice(
        END,
        "02_crash_and_takeover",
        LESSON,
        text="In each of two files A claims a task at t=1 with a lease of 30. In the first A works "
        "on. In the second its process is killed at t=4, and a new process A opens the file. In "
        "which columns do the two rows differ at t=20?",
        choices={
            ("state",): "In `state`: the task of the second file does not run.",
            ("lease_owner",): "In `lease_owner`: the new process has claimed nothing.",
            ("lease_until",): "In `lease_until`: the lease ends with the process.",
            (): "In none: nobody has written anything since t=1.",
        },
        expected=(),
        why="Nobody writes anything when a process is killed. The row says what the last worker "
        "wrote, not what is true of that worker now.",
        run=evidence.row_after_a_crash,
    ),
    MultipleChoice(
        END,
        "02_crash_and_takeover",
        LESSON,
        text="A claims at t=1 with a lease of 30 and dies. B claims at t=30, is refused, and claims "
        "again at t=40. Which lease does B get?",
        choices={
            (31, 61): "`[31, 61)`: B was waiting when A's lease ended.",
            (30, 60): "`[30, 60)`: B first asked at t=30.",
            (40, 70): "`[40, 70)`: the claim of t=40 is the one that counts.",
            (40, 61): "`[40, 61)`: what is left of the 30 that follow A's lease.",
        },
        expected=(40, 70),
        why="The end of a lease writes nothing and gives the task to nobody, and a refused claim "
        "leaves nothing in the file. The task lies idle until a claim is accepted.",
        run=evidence.lease_of_a_late_takeover,
    ),
    MultipleChoice(
        GENERATION,
        "03_stale_commit",
        LESSON,
        text="A claims at t=1 with a lease of 30. At t=3 it sends its finish, at t=4 it crashes. B "
        "takes over at t=31. A's finish was held up and reaches the file at t=33. What does the "
        "file answer?",
        choices={
            ("generation",): "Refused, by `generation` alone: the row has B's.",
            ("expiry",): "Refused, by `expiry` alone: A's lease ended at t=31.",
            ("generation", "expiry"): "Refused, by `generation` and `expiry`: A has lost both.",
            (): "Accepted: A sent it while its lease was live.",
        },
        expected=("generation",),
        why="The guards look at the row, and its lease is B's, which is live. Only the number tells "
        "A's claim from B's. When the finish was sent is written nowhere.",
        run=evidence.finish_sent_before_a_crash,
    ),
    MultipleChoice(
        GENERATION,
        "03_stale_commit",
        ARTICLE,
        text="`ack` compares the owner and the generation. You strike the generation out. Can an "
        "`ack` that belongs to an earlier claim be accepted now?",
        choices={
            0: "No: the owner's name refuses everybody but the owner.",
            1: "Yes, and one worker alone is enough for that.",
            2: "Yes, but only if two workers take part.",
        },
        expected=1,
        why="The same worker can claim a task twice, and then both claims carry the same name. The "
        "generation goes up at every claim, so it tells these two apart as well.",
        run=evidence.owner_without_generation,
    ),
    MultipleChoice(
        OUTSIDE,
        "04_unknown_outcome",
        LESSON,
        text="A calls the service without an idempotency key. The call times out, and A gives the task "
        "back, to be tried again. B claims it, calls in the same way, hears back and finishes. The timeout "
        "may mean that the request was lost, that the reply was lost, or that the service is slow and acts "
        "later. In which of these three cases has the service acted twice in the end?",
        choices={
            (): "In none of them: only one of the two calls was answered.",
            tuple(TWICE): "In two of them: the reply was lost, or the service is slow.",
            tuple(TWICE[:1]): "In one of them: the reply was lost.",
            (REQUEST, *TWICE): "In all of them: the service was called twice.",
        },
        expected=tuple(TWICE),
        why="A timeout says that A has stopped waiting, not what the service did. Another try is "
        "harmless only if the request never arrived, and A cannot know that.",
        run=evidence.another_try_after_a_timeout,
    ),
    MultipleChoice(
        OUTSIDE,
        "05_duplicate_side_effect",
        LESSON,
        text="A task is to send two mails. A sends both and crashes before it can finish. B takes "
        "over and sends both again. The service acts once for each idempotency key. With which "
        "keys do both go out just once?",
        choices={
            "task": "`task-1` for all four calls.",
            "call": "`call-1` to `call-4`, a fresh one for each call.",
            "mail": "`task-1-first` and `task-1-second`, for A as for B.",
            "attempt": "`task-1-generation-1` for A, `task-1-generation-2` for B.",
        },
        expected="mail",
        why="A key stands for one intended action: the same at every attempt, and another one for "
        "another action. `task-1` swallows the second mail, a fresh key sends both twice, and one "
        "for each attempt sends the first mail twice and the second never.",
        run=evidence.keys_for_two_mails,
    ),
    MultipleChoice(
        OUTSIDE,
        "05_duplicate_side_effect",
        INTERVIEWER,
        text="A lease is a lock that ends by itself. With every guard on, which of these is true in "
        "every schedule of the search's scope?",
        choices={
            "side_effect": "For no task does the outside service act more than once.",
            "belief": "Each worker that believes in its claim is the one that the row names.",
            "one claim": "No task that is done has been claimed more than once.",
            "one_live_holder": "No two workers have been told of leases of one task that are both live.",
        },
        expected="one_live_holder",
        why="A lease promises that one worker holds the task at this moment. It ends, somebody takes "
        "over, and whoever held it before may have acted already. What must happen once needs an "
        "idempotency key.",
        run=evidence.promises_of_a_lease,
    ),
    MultipleChoice(
        HEARTBEAT,
        "07_heartbeat",
        LESSON,
        text="A lease lasts 60. A claims at t=1 and then sends a beat every 15. How many beats in a "
        "row may fail, at the most, without costing A its lease?",
        choices={1: "1", 2: "2", 3: "3", 4: "4"},
        expected=2,
        why="The fourth beat after the last one that got through falls on the end itself, which is "
        "not held. Of the three before it one has to get through.",
        run=evidence.beats_that_may_fail,
    ),
    MultipleChoice(
        HEARTBEAT,
        "07_heartbeat",
        ARTICLE,
        text="You strike `expiry` out of `renew` and leave all other guards. Which of these does a search "
        "find now, within its scope?",
        choices={
            "revived_lease": "A lease that has ended is live again, with the same generation.",
            "stale_commit": "A request of an earlier generation is accepted, after a takeover.",
            "one_live_holder": "Two workers have been told of leases of one task that are both live.",
            "final": "A task that is done is running again, with a new end of its lease.",
        },
        expected="revived_lease",
        why="Owner and generation still refuse everybody but the last holder, so nothing is "
        "overwritten. But the last holder can pull its ended lease up again whenever it wakes, unless "
        "somebody has claimed in between; whoever asks after that has to wait.",
        run=evidence.ended_lease_renewed,
    ),
    MultipleChoice(
        HEARTBEAT,
        "07_heartbeat",
        ARTICLE,
        text="A lease lasts 30 seconds. A claims at t=1, beats every 10 seconds from t=11 to t=91, and "
        "crashes at t=95. Suppose that each beat counts its 30 seconds from the old end and not from now. "
        "From how many seconds after the crash on may B claim?",
        choices={26: "26", 30: "30", 206: "206", 270: "270"},
        expected=206,
        why="Each beat adds 30 while 10 pass, so each leaves 20 more on the lease: the longer A has "
        "lived, the longer its death goes unnoticed. Counted from now it is never more than one "
        "lease.",
        run=evidence.renewals_from_the_old_end,
    ),
    MultipleChoice(
        HEARTBEAT,
        "07_heartbeat",
        INTERVIEWER,
        text="A's lease is `[1, 61)`. A is suspended and wakes at t=100; nobody has claimed "
        "meanwhile. A sends a beat and, should that be refused, a claim. How does A go on?",
        choices={
            (None, 1): "With generation 1, by its claim: nobody came in between.",
            (160, None): "With generation 1, by its beat: nobody else wanted the task.",
            (None, None): "Not at all: the task waits for another worker.",
            (None, 2): "With generation 2, by its claim: the old lease has ended.",
        },
        expected=(None, 2),
        why="An end is final for its generation. Whoever has let a lease end claims again, like "
        "everybody else, and gets a new generation; a request of the old one is refused from then on.",
        run=evidence.refused_beat,
    ),
    MultipleChoice(
        HEARTBEAT,
        "07_heartbeat",
        INTERVIEWER,
        text="Some work takes 500 seconds. Somebody proposes a lease of 600 without a heartbeat, "
        "instead of one of 60 with a beat every 20. What gets worse?",
        choices={
            "waits": "After a crash the task waits longer for the next worker.",
            "loses": "A worker that lives loses its lease before the work is done.",
            "writes": "The row is written more often.",
            "two": "Another worker can claim while A works.",
        },
        expected="waits",
        why="Without a heartbeat the lease has to be as long as the work, and a dead worker holds "
        "the task just as long. A heartbeat separates the two questions: how long may the work take, "
        "and how long may a death go unnoticed.",
        run=evidence.long_lease,
    ),
    MultipleChoice(
        HEARTBEAT,
        "10_real_workers",
        LESSON,
        text="A lease lasts 60 seconds. A claims at t=1, and its beat of t=21 is confirmed. The beat of t=41 "
        "ends without an answer, by a timeout, and no later one arrives. When does A have to stop "
        "believing in its lease?",
        choices={
            41: "At t=41: a beat has failed.",
            61: "At t=61: the lease of the claim ends.",
            81: "At t=81: one lease after the last beat that was confirmed.",
            101: "At t=101: one lease after a beat that may have been accepted.",
        },
        expected=81,
        why="A timeout is an unknown outcome. It does not prove the loss, so A may go on. It confirms "
        "nothing either, so A may go on only as long as the last confirmed beat vouches for it.",
        run=evidence.beat_without_an_answer,
    ),
    MultipleChoice(
        WRITE,
        "08_fenced_write",
        ARTICLE,
        text="`commit_run` has refused A's write. A reads the run anew, does its step on it, and "
        "writes once more with the same claim. After which refusal does that help?",
        choices={
            (
                "revision_conflict",
            ): "After `revision_conflict` only: a new copy has the new revision.",
            ("lease_lost",): "After `lease_lost` only: a new copy shows who holds the task.",
            ("revision_conflict", "lease_lost"): "After either: A has now seen what has changed.",
            (): "After neither: A has to claim once more before it writes.",
        },
        expected=("revision_conflict",),
        why="`revision_conflict` says that A's copy is old, and a fresh one mends that. `lease_lost` "
        "says that A may not write, and nothing that it reads mends that: it stops and drops its "
        "result. (After `committed`, the third answer, it acknowledges.)",
        run=evidence.write_after_a_refusal,
    ),
    MultipleChoice(
        WRITE,
        "08_fenced_write",
        LESSON,
        text="A adds `outline` to the run at t=10 with `commit_run`, hears `committed`, and crashes before "
        "its `ack`. B takes over at t=31, reads the run, does the same step, and writes with `commit_run`. "
        "What keeps `outline` from standing in the run twice?",
        choices={
            "revision_conflict": "The revision: it has moved since A wrote.",
            "committed": "Nothing: `commit_run` accepts B's write.",
            "lease_lost": "The lease: A's write has used it up.",
        },
        expected="committed",
        why="`commit_run` has two conditions. The revision: B has read the run after A's write. The "
        "lease: B's own is live. So both hold. Whether the step is done already is a third question, and B "
        "has to look for the answer in the run.",
        run=evidence.crash_before_the_ack,
    ),
    MultipleChoice(
        WRITE,
        "08_fenced_write",
        INTERVIEWER,
        text="A must not write into the run once it has lost its lease. Suppose that A may be "
        "suspended between any two of its steps. Which of these is enough?",
        choices={
            "file": "A SELECT just before the write: is the row's generation A's?",
            "clock": "A comparison just before the write: is the clock before A's `lease_until`?",
            "condition": "A condition in the UPDATE that writes: is A's lease live?",
            "renew": "A renewal just before the write: does the file accept it?",
        },
        expected="condition",
        why="The other three are right when they are asked, and the write comes later. Only a "
        "condition inside the statement that writes leaves no gap: the database decides.",
        run=evidence.checks_before_a_write,
    ),
    MultipleChoice(
        LIMIT,
        "09_attempt_limit",
        LESSON,
        text="A task may be attempted three times. Which of these uses up no attempt?",
        choices={
            "refused": "A claim that comes while another worker holds the task.",
            "given back": "A claim that is given back a second later, untouched.",
            "killed": "A claim whose worker is killed by a deployment.",
            "too slow": "A claim whose work is done, but whose finish comes too late.",
        },
        expected="refused",
        why="The limit looks at the generation, which every accepted claim raises and nothing "
        "lowers. What became of a claim is not in the file.",
        run=evidence.what_uses_up_no_attempt,
    ),
    MultipleChoice(
        LIMIT,
        "09_attempt_limit",
        ARTICLE,
        text="The fourth claim was one too many: `exhaust` has failed the task and its run. Now the "
        "cause is found and mended. Which statement brings this task back to a worker?",
        choices={
            ("claim",): "`claim`, some time after the last lease.",
            ("release",): "`release`, by the worker that made the fourth claim.",
            ("renew",): "`renew`, by the worker that made the fourth claim.",
            (): "None of these three, however long the worker waits.",
        },
        expected=(),
        why="`failed` is final, so no claim chooses the task. And it has neither an owner nor a lease any "
        "more, so what the worker of the fourth claim sends is refused, too.",
        run=evidence.way_back_from_failed,
    ),
    MultipleChoice(
        SCHEDULES,
        "11_break_a_guard",
        LESSON,
        text="Struck out alone, `renew.owner` breaks nothing: in no schedule of the search's scope have two "
        "workers been told of leases of one task that are both live. Which guard would have to be struck "
        "out, too, so that the search finds one?",
        choices={
            "renew.expiry": "`renew.expiry`: then a worker that comes back renews its ended lease.",
            "renew.running": "`renew.running`: then a task that is done is held once more.",
            None: "None of the others: a beat names no new holder.",
            "renew.generation": "`renew.generation`: then nothing tells A's beat from B's.",
        },
        expected="renew.generation",
        why="For this property each of the two is enough. Not for every property: without the generation "
        "alone, a stale beat of the same worker gets through, as its stale `ack` does in question 7.",
        run=evidence.spare_of_an_owner_guard,
    ),
    MultipleChoice(
        SCHEDULES,
        "12_write_your_own",
        LESSON,
        text="You write a renewal of your own: `SET lease_until = :now + :lease`, without the `MAX`, "
        "and with all the conditions of `renew.sql`. Does the search find a schedule that breaks a property? "
        "And can a worker lose the task before the time that it was told?",
        choices={
            (True, True): "The search finds none, and yet a worker can lose the task too early.",
            (True, False): "The search finds none, and no worker can lose the task too early.",
            (False, True): "The search finds one, and a worker can lose the task too early.",
            (False, False): "The search finds one, and yet no worker can lose the task too early.",
        },
        expected=(True, True),
        why="A verdict is about its scope and nothing outside it. In this one every request carries "
        "the time at which it arrives. Lesson 07 has a beat that was held up: without the `MAX` "
        "it takes back what the worker was told before.",
        run=evidence.renewal_without_max,
    ),
)
