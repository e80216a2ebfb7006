@seed_7120
Feature: Every change entry is in the changeset that it belongs to
  The report (#7120): start_changeset() appends to a list of active changesets and record_change() reads its last
  element, "without any synchronization primitive". An entry was "silently recorded against the wrong changeset", or the
  reading thread crashed with an IndexError "even though the guard passed".

  Now there is no list. The open changesets are in the store. There, starting a changeset and making it visible are one
  step, and so are looking up the latest open one and recording into it. The owner of a handle records into the handle's
  own changeset, whatever else is started.

  Rule: No IndexError or stale-ID recording can occur under concurrent access

    Scenario: A changeset that is not visible yet takes no entry
      Given a plan with the started changeset "first"
      When thread A starts the changeset "second": it is inside the store, and the changeset is not yet visible
      And thread B records the change "b.txt"
      Then thread B is answered that the change was recorded
      When thread A runs to its end
      Then the changesets are
        | changeset | state | entries |
        | first     | open  | b.txt   |
        | second    | open  |         |
      When thread B records the change "c.txt"
      Then the changesets are
        | changeset | state | entries |
        | first     | open  | b.txt   |
        | second    | open  | c.txt   |

    Scenario: A changeset that is visible takes the entry, although the thread that starts it has not been answered
      Given a plan with the started changeset "first"
      When thread A starts the changeset "second": the store has it, and has not answered yet
      And the store shows 2 changesets
      And thread B records the change "b.txt"
      And thread A runs to its end
      Then thread B is answered that the change was recorded
      And the changesets are
        | changeset | state | entries |
        | first     | open  |         |
        | second    | open  | b.txt   |

    @naive
    Scenario: The naive context records into the previous changeset, although the store has a newer one
      Given a naive plan with the started changeset "first"
      When thread A starts the changeset "second": the store has it, and has not answered yet
      And the store shows 2 changesets
      And thread B records the change "b.txt"
      And thread A runs to its end
      Then thread B is answered that the change was recorded
      And the changesets are
        | changeset | state | entries |
        | first     | open  | b.txt   |
        | second    | open  |         |

    Scenario: With no changeset a change is refused in words, also while the first one is being started
      Given a plan without a changeset
      When thread A starts the changeset "first": it is inside the store, and the changeset is not yet visible
      And thread B records the change "b.txt"
      Then thread B is answered "No active changeset. Call start_changeset() first."
      When thread A runs to its end
      Then the changesets are
        | changeset | state | entries |
        | first     | open  |         |
      When thread B records the change "b.txt"
      Then the changesets are
        | changeset | state | entries |
        | first     | open  | b.txt   |

    @naive
    Scenario: The naive context crashes while the first changeset is being appended, though its guard passed
      Given a naive plan without a changeset
      When thread A starts the changeset "first": the list has grown, and its last place is still empty
      And thread B records the change "b.txt"
      Then thread B crashes with "IndexError: list index out of range"
      When thread A runs to its end
      Then the changesets are
        | changeset | state | entries |
        | first     | open  |         |

    Scenario: With no changeset ever started a change is refused in words
      Given a plan without a changeset
      When thread B records the change "b.txt"
      Then thread B is answered "No active changeset. Call start_changeset() first."
      And the changesets are
        | changeset | state | entries |

  Rule: record_change() must atomically read the latest changeset, and record into it

    Scenario: A changeset that is started while a change is on its way takes that change
      Given a plan with the started changeset "first"
      When thread B records the change "b.txt": it is inside the store, and nothing is recorded yet
      And thread A starts the changeset "second"
      And thread B runs to its end
      Then thread B is answered that the change was recorded
      And the changesets are
        | changeset | state | entries |
        | first     | open  |         |
        | second    | open  | b.txt   |

    @naive
    Scenario: A lock round the lookup alone, as the report suggests, still records into the previous changeset
      Given a naive plan with a lock round its lookup, and the started changeset "first"
      When thread B records the change "b.txt": it has looked up the changeset, and nothing is recorded yet
      And thread A starts the changeset "second"
      And thread B runs to its end
      Then thread B is answered that the change was recorded
      And the changesets are
        | changeset | state | entries |
        | first     | open  | b.txt   |
        | second    | open  |         |

    Scenario Outline: <recorders> threads record while <starters> threads start changesets, and no change goes back to an older one
      Given a plan with the started changeset "first"
      When in <rounds> rounds <recorders> threads record a change each while <starters> threads start a changeset each
      Then all <total> changes are recorded, numbered from 1 to <total> without a gap
      And no change is in a changeset that is older than that of the change before it

      Examples:
        | recorders | starters | rounds | total |
        | 2         | 1        | 400    | 800   |
        | 4         | 2        | 200    | 800   |
        | 8         | 4        | 100    | 800   |

  Rule: A change that is recorded through a handle is in the changeset of that handle

    Scenario: A handle's change stays in its changeset, though a newer one is started while it is on its way
      Given a plan with the started changeset "first"
      When thread B records the change "b.txt" into "first": it is inside the store, and nothing is recorded yet
      And thread A starts the changeset "second"
      And thread B runs to its end
      Then thread B is answered that the change was recorded
      And the changesets are
        | changeset | state | entries |
        | first     | open  | b.txt   |
        | second    | open  |         |

    Scenario: A change that comes to its changeset after the close is handed back, and the closed changeset stays as it is
      Given a plan with the started changeset "first"
      When thread B records the change "b.txt" into "first": it is inside the store, and nothing is recorded yet
      And thread A closes the changeset "first", which tells of 0 entries
      And thread B runs to its end
      Then thread B is answered that "first" is closed, and gets the change "b.txt" back
      And the changesets are
        | changeset | state  | entries |
        | first     | closed |         |

    Scenario: A change that came before the close is in the closed changeset, though its caller was not answered yet
      Given a plan with the started changeset "first"
      When thread B records the change "b.txt" into "first": the store has it, and has not answered yet
      And thread A closes the changeset "first", which tells of 1 entry
      And thread B runs to its end
      Then thread B is answered that the change was recorded
      And the changesets are
        | changeset | state  | entries |
        | first     | closed | b.txt   |

    Scenario Outline: <threads> threads over <changesets> changesets mix nothing up
      Given a plan without a changeset
      When <threads> threads share <changesets> changesets and each records <each> changes into every one, all starting at once
      Then every changeset has the changes that were recorded through its handles, numbered from 1 without a gap
      And all <total> changes are recorded, numbered from 1 to <total> without a gap

      Examples:
        | threads | changesets | each | total |
        | 2       | 2          | 100  | 400   |
        | 8       | 64         | 4    | 2048  |
        | 16      | 8          | 8    | 1024  |

  Rule: A closed changeset is no longer active

    Scenario: A change is recorded into the most recently started changeset that is still open
      Given a plan with the started changeset "first"
      And thread A starts the changeset "second"
      When thread A closes the changeset "second", which tells of 0 entries
      And thread B records the change "b.txt"
      And thread A closes the changeset "first", which tells of 1 entry
      And thread B records the change "c.txt"
      Then thread B is answered "No active changeset. Call start_changeset() first."
      And the changesets are
        | changeset | state  | entries |
        | first     | closed | b.txt   |
        | second    | closed |         |

    Scenario Outline: <threads> threads that open, fill and close <each> changesets each leave none open
      Given a plan without a changeset
      When <threads> threads open, fill and close <each> changesets each, all starting at once
      Then all <total> changesets are closed with 1 change each
      When thread B records the change "b.txt"
      Then thread B is answered "No active changeset. Call start_changeset() first."

      Examples:
        | threads | each | total |
        | 4       | 50   | 200   |
        | 8       | 125  | 1000  |

  Rule: Concurrent plan executions do not meet in each other's changesets

    Scenario Outline: <plans> plans that work at once, <threads> threads each, keep their changes apart
      Given <plans> plans without a changeset in one store
      When each plan starts a changeset and <threads> threads of each record <each> changes, all starting at once
      Then each plan has 1 changeset with its own <entries> changes, numbered from 1 without a gap

      Examples:
        | plans | threads | each | entries |
        | 2     | 4       | 50   | 200     |
        | 8     | 2       | 50   | 100     |
