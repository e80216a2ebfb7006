@seed_7333
Feature: No error of a plan is lost, and every one is counted once
  The report (#7333): _get_or_create_history() asks whether a plan has a history, and then assigns a new one. Two threads
  "can both see the history as absent, both create a new ErrorHistory", and one overwrites the other: "that error is
  permanently lost".

  Now "History creation and error recording should be atomic with respect to concurrent access" holds. No caller gets a
  history to write into. record_error() finds or creates it, appends, counts and decides in one step of the store.

  Rule: Two concurrent record_error() calls for the same plan lose no record

    Scenario: Two threads that both found no history record both errors
      Given a plan without errors
      When thread A records the error "A timed out": it is inside the store, and nothing is recorded yet
      And thread B records the error "B timed out": it is inside the store, and nothing is recorded yet
      And the history of the plan is seen to be empty
      And thread A runs to its end
      And thread B runs to its end
      Then the history of the plan is
        | seq | message     | answer  |
        | 1   | A timed out | retry 1 |
        | 2   | B timed out | retry 2 |
      And each thread received the answer that the history records

    @naive
    Scenario: The naive service loses the error of the thread that was first, when both found no history
      Given a naive plan without errors
      When thread A records the error "A timed out": it found no history, and has made one that is not yet assigned
      And thread B records the error "B timed out": it found no history, and has made one that is not yet assigned
      And thread A runs to its end
      And thread B runs to its end
      Then the history of the plan is
        | seq | message     | answer  |
        | 1   | B timed out | retry 1 |

    Scenario Outline: Thread B records its error while that of thread A is on its way: <where>
      Given a plan without errors
      When thread A records the error "A timed out": <where>
      And thread B records the error "B timed out"
      And thread A runs to its end
      Then the history of the plan is
        | seq | message  | answer  |
        | 1   | <first>  | retry 1 |
        | 2   | <second> | retry 2 |
      And each thread received the answer that the history records

      Examples:
        | where                                                | first       | second      |
        | it is inside the store, and nothing is recorded yet  | B timed out | A timed out |
        | the store has it, and has not answered yet           | A timed out | B timed out |

  Rule: Retries are counted in the step that records, so the limit holds exactly

    Scenario: Two threads that fail at the same moment share the one retry that is left
      Given a plan without errors, with 1 retry per step
      When thread A records the error "A timed out": it is inside the store, and nothing is recorded yet
      And thread B records the error "B timed out": it is inside the store, and nothing is recorded yet
      And thread A runs to its end
      And thread B runs to its end
      Then the history of the plan is
        | seq | message     | answer  |
        | 1   | A timed out | retry 1 |
        | 2   | B timed out | ask     |

    @naive
    Scenario: With setdefault(), as the report suggests, no record is lost, but both threads get the one retry that is left
      Given a naive plan without errors, whose history is found or created by setdefault
      When thread A records the error "A timed out": it has counted the retries, and nothing is recorded yet
      And thread B records the error "B timed out": it has counted the retries, and nothing is recorded yet
      And thread A runs to its end
      And thread B runs to its end
      Then the history of the plan is
        | seq | message     | answer  |
        | 1   | A timed out | retry 1 |
        | 2   | B timed out | retry 1 |

    Scenario Outline: <threads> threads that record <each> errors each for one step get <retries> retries in all, of <limit>
      Given a plan without errors, with <limit> retries per step
      When <threads> threads record <each> errors each for one step, all starting at once
      Then each retry from the first to number <retries> was answered once, and "ask" <asked> times
      And <total> errors are in the history, numbered from 1 without a gap, <kept> of them stored in full

      Examples:
        | threads | each | limit | retries | asked | total | kept |
        | 2       | 1    | 3     | 2       | 0     | 2     | 2    |
        | 4       | 5    | 3     | 3       | 17    | 20    | 20   |
        | 8       | 12   | 3     | 3       | 93    | 96    | 96   |
        | 8       | 12   | 0     | 0       | 96    | 96    | 96   |
        | 8       | 50   | 30    | 30      | 370   | 400   | 100  |

    Scenario: An error that is reported again is neither recorded nor counted again, and its details are merged
      Given a plan without errors
      When thread A records the error "A timed out" with the detail "host" = "one"
      And thread B records the same error again with the detail "port" = "two"
      And thread C records the same error again with the detail "host" = "three"
      Then the history of the plan is
        | seq | message     | answer  |
        | 1   | A timed out | retry 1 |
      And each thread received the answer that the history records
      And the details of the plan's errors are
        | key  | values    |
        | host | one three |
        | port | two       |

  Rule: One service is shared across many plans and readers

    Scenario Outline: <plans> plans that fail at once, <threads> threads each, keep their histories apart
      Given <plans> plans without errors in one store
      When <threads> threads of each plan record <each> errors, all starting at once
      Then each plan has the <total> errors of its own, numbered from 1 without a gap

      Examples:
        | plans | threads | each | total |
        | 2     | 4       | 10   | 40    |
        | 8     | 2       | 20   | 40    |

    Scenario: Whoever reads the history while others record sees a whole one that only grows
      Given a plan without errors
      When 4 threads record 50 errors each for one step while another thread reads the history until the last one
      Then every history that was read is the beginning of the last one

    Scenario: An error that a worker reports after another one took its job over is refused, and not recorded
      Given a plan without errors
      When thread A records the error "A timed out": it is inside the store, and nothing is recorded yet
      And another worker takes over the job of the plan
      And thread A runs to its end
      Then thread A is answered that its lease is lost
      And the history of the plan is
        | seq | message | answer |
