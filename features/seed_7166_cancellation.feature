@seed_7166
Feature: No cancel is lost, whichever thread resets the token
  The report (#7166): CancellationToken.reset() clears an event "without any synchronization guard". A thread that was
  woken by a cancel finds the event cleared "before it can act, effectively losing the cancellation signal"; one that has
  begun its teardown sees "the state silently reset beneath it"; jobs "may skip cancellation entirely".

  Now "reset() must be safe to call from any thread at any time" holds. A token has generations. A cancelled generation
  stays cancelled for every observer of it; a reset opens the next one, and leaves a live one alone. The worker of a job
  carries out its cancel: after the acknowledgement nothing of the job has an effect.

  Rule: reset() cannot interleave with concurrent cancel(), is_cancelled, or wait() calls

    Scenario: A waiter that a cancel woke sees it, although a reset came before it checked
      Given a cancellation token
      And thread W is blocked, waiting for a cancel
      When thread C cancels the token, and thread W is woken but has not checked yet
      And thread R resets the token
      And thread W runs to its end
      Then thread W sees that it was cancelled
      And the token is no longer cancelled

    @naive
    Scenario: A waiter that a cancel of the naive token woke does not hear of it, when a reset came before it looked
      Given a naive cancellation token
      And thread W is blocked, waiting for a cancel
      When thread C cancels the token, and thread W is woken but has not checked yet
      And thread R resets the token
      And thread W runs to its end
      Then thread W sees that it was not cancelled
      And the token is no longer cancelled

    Scenario: Waiting threads see a cancel that is reset before any of them is woken
      Given a cancellation token
      And 8 threads that wait for the cancel of what they observe now
      When thread C cancels the token, and has not woken anybody yet
      And thread R resets the token
      And thread C runs to its end
      Then all 8 threads see that they were cancelled
      And the token is no longer cancelled

    Scenario: A job sees the same until the end of its teardown, although a reset comes in the middle
      Given a cancellation token
      And thread C cancels the token that job J observes
      When job J has seen that it is cancelled and is in the middle of its teardown
      And thread R resets the token
      And thread J runs to its end
      Then job J saw "cancelled" at first and "cancelled" in its teardown

    @naive
    Scenario: A job of the naive token sees in its teardown that it is not cancelled, if a reset comes in the middle
      Given a naive cancellation token
      And thread C cancels the token that job J observes
      When job J has seen that it is cancelled and is in the middle of its teardown
      And thread R resets the token
      And thread J runs to its end
      Then job J saw "cancelled" at first and "not cancelled" in its teardown

    Scenario: A job that checks in a tight loop stops, although cancel and reset both came between two checks
      Given a cancellation token
      When job J of 3 steps has done 1 of them and is between two checks
      And thread C cancels the token
      And thread R resets the token
      And thread J runs to its end
      Then job J stopped after 1 step

    @naive
    Scenario: A job of the naive token skips the cancellation entirely, when cancel and reset came between two checks
      Given a naive cancellation token
      When job J of 3 steps has done 1 of them and is between two checks
      And thread C cancels the token
      And thread R resets the token
      And thread J runs to its end
      Then job J stopped after 3 steps

  Rule: The concurrent reset/cancel race, with a barrier that forces the interleaving

    Scenario: Of two threads that reset the same cancel the second one does not wipe out the next cancel for its job
      Given a cancellation token that is cancelled
      When thread A has seen the cancel and is about to reset it
      And thread B has seen the cancel and is about to reset it
      And thread A runs to its end
      And job K observes the token
      And thread C cancels the token
      And thread B runs to its end
      Then job K is cancelled
      And the token is no longer cancelled

    @naive
    Scenario: Of two threads that reset the same cancel of the naive token the second one wipes out the next cancel for its job
      Given a naive cancellation token that is cancelled
      When thread A has seen the cancel and is about to reset it
      And thread B has seen the cancel and is about to reset it
      And thread A runs to its end
      And job K observes the token
      And thread C cancels the token
      And thread B runs to its end
      Then job K is not cancelled
      And the token is no longer cancelled

    Scenario: A thread that resets only the cancel that it saw leaves the next cancel alone
      Given a cancellation token that is cancelled
      When thread B has seen the cancel and is about to reset that one only
      And thread A has seen the cancel and is about to reset it
      And thread A runs to its end
      And thread C cancels the token
      And thread B runs to its end
      Then the token is cancelled

    Scenario: A cancel and a reset that start at once come one after the other, and the cancel is heard either way
      Given a cancellation token
      When in 500 rounds a cancel and a reset of a fresh token meet, with a job that observes it
      Then in each round the job is cancelled, and the token is cancelled exactly if the reset came first

    Scenario Outline: Of <threads> threads that cancel at once one does it, and all see its reason
      Given a cancellation token
      And <waiters> threads that wait for the cancel of what they observe now
      When <threads> threads cancel the token at once, each with a reason of its own
      Then one of them learns that it cancelled, and the others that it was already cancelled
      And all <waiters> threads see that they were cancelled
      And the reason is that of the one who cancelled

      Examples:
        | threads | waiters |
        | 2       | 1       |
        | 6       | 8       |

  Rule: A reset opens a new generation, and neither loses a cancel nor lets one leak

    Scenario: A reset of a live token does nothing, since its observers must hear the next cancel
      Given a cancellation token
      And job J observes the token
      When thread R resets the token
      And thread C cancels the token
      Then job J is cancelled

    Scenario: A cancel does not leak into the next generation
      Given a cancellation token
      And job J observes the token
      When thread C cancels the token
      And thread R resets the token
      And job K observes the token
      Then job J is cancelled
      And job K is not cancelled

    Scenario: A timer that fires late cancels the generation it was set for, and not the next one
      Given a cancellation token
      When thread T has set a timer for the present generation
      And thread C cancels the token
      And thread R resets the token
      And the timer of thread T fires
      Then the token is no longer cancelled

    Scenario Outline: <threads> threads that cancel, reset and check <each> times each never see a cancel reverted
      Given a cancellation token
      When <threads> threads cancel, reset and check <each> times each, all starting at once
      Then no cancel that a job saw was reverted, and every generation was opened once

      Examples:
        | threads | each |
        | 2       | 2000 |
        | 8       | 500  |

  Rule: A job is run by one worker, and once

    Scenario: Two workers that ask for one job at the same moment run it once
      Given a queued job
      When worker A requests a job, and has not received it yet
      And worker B requests a job, and has not received it yet
      And worker A continues
      And worker B continues
      Then the job was run 1 time
      And the job is "succeeded"

    @naive
    Scenario: Two workers of the naive queue that ask for one job at the same moment both run it
      Given a queued job in a naive queue
      When worker A requests a job, and has not received it yet
      And worker B requests a job, and has not received it yet
      And worker A continues
      And worker B continues
      Then the job was run 2 times

    Scenario Outline: <workers> workers run each of <jobs> jobs once
      Given <jobs> queued jobs
      When <workers> workers start at once and run until all jobs have ended
      Then each of the <jobs> jobs was run once and is "succeeded"

      Examples:
        | workers | jobs |
        | 2       | 10   |
        | 4       | 60   |

  Rule: A running job that is cancelled stops, and after the acknowledgement nothing of it has an effect

    Scenario: The cancel of a running job reaches its scope, retains its changes, and lets it do no more
      Given a running job that has recorded the change "kept.txt" and waits for its scope
      When the user cancels the job
      Then the job is asked to stop: "asked for by the user"
      And the job is "cancelled"
      And the changeset of the job is "interrupted" and holds "kept.txt"
      When a part of the job that was left behind records the change "late.txt"
      Then it is answered "the plan was cancelled: asked for by the user"
      And the changeset of the job is "interrupted" and holds "kept.txt"

    Scenario: A job that does not listen is abandoned, and what it does later has no effect
      Given a running job that has recorded the change "kept.txt" and does not listen to its scope
      When the user cancels the job
      And the time passes that a cancelled job is given to end
      Then the job is "cancelled"
      And the changeset of the job is "interrupted" and holds "kept.txt"
      When a part of the job that was left behind records the change "late.txt"
      Then it is answered "the plan was cancelled: asked for by the user"
      And the changeset of the job is "interrupted" and holds "kept.txt"

    Scenario: The cancel of one job does not reach the job beside it
      Given a running job that has recorded the change "kept.txt" and waits for its scope
      And a second job that runs beside it in the same worker
      When the user cancels the job
      Then the job is asked to stop: "asked for by the user"
      When the second job continues
      Then the second job was not asked to stop, and is "succeeded"
      And the job is "cancelled"

    Scenario: A cancel that comes while the success of a job is on its way wins
      Given a running job that has recorded the change "kept.txt" and is done: its success is on the way to the store
      When the user cancels the job
      And the success of the job reaches the store
      Then the job is "cancelled"

    Scenario: A cancel that comes after the success of a job learns that it came too late
      Given a running job that has recorded the change "kept.txt" and is done: the store has its success, and its worker does not know
      When the user cancels the job
      Then the user is answered "the job is succeeded already"
      When the worker hears of the success
      Then the job is "succeeded"

    Scenario: A reset of the process's token does not bring a run back that was asked to stop, nor stop the next one
      Given a running job that has recorded the change "kept.txt" and waits for its scope
      When thread C cancels the token of the worker's process, and thread R resets it before the job checks
      Then the job is asked to stop
      And the job is "queued"
      When another worker of the process starts
      Then the job runs again with a scope that is not cancelled, and is "succeeded"
