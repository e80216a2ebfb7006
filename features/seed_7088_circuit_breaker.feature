@seed_7088
Feature: Circuit breakers that every pipeline shares lose no outcome
  The report (#7088): one CircuitBreaker is shared by all pipeline invocations, "all threads share the same _failures dict
  and _disabled set with no synchronization". Two threads read a count of 2 and both write 3: a "lost increment — should
  be 4". So strategies were never disabled, incorrectly re-enabled, silently skipped.

  Now each operation on a strategy's breaker is one step. Whatever other threads do, it happens whole or not at all.
  Every failure is counted, a breaker opens once, and the call that opened it returns that.

  Rule: Concurrent calls to record_failure() from multiple threads produce correct cumulative counts

    Scenario: Two threads that have both read a count of 2 open the breaker once and lose nothing
      Given circuit breakers that open after 3 failures in a row
      And "semantic" has failed 2 times
      When thread A records a failure of "semantic": it has read the count and not yet written it
      And thread B records a failure of "semantic": it has read the count and not yet written it
      And thread A runs to its end
      And thread B runs to its end
      Then thread A sees that its failure opened the breaker
      And thread B sees that the breaker was already open
      And "semantic" is disabled

    @naive
    Scenario: The naive breaker loses an increment when two threads have both read a count of 2
      Given naive circuit breakers that open after 3 failures in a row
      And "semantic" has failed 2 times
      When thread A records a failure of "semantic": it has read the count and not yet written it
      And thread B records a failure of "semantic": it has read the count and not yet written it
      And thread A runs to its end
      And thread B runs to its end
      Then the naive count of "semantic" is 3 after 4 failures

    Scenario: The fourth failure opens a breaker of threshold four, although the third comes at the same time
      Given circuit breakers that open after 4 failures in a row
      And "semantic" has failed 2 times
      When 2 threads record 1 failure of "semantic" each, all starting at once
      Then 1 of these failures opened the breaker, and 1 was counted
      And "semantic" is disabled

    @naive
    Scenario: The naive breaker never disables a strategy whose fourth failure was lost
      Given naive circuit breakers that open after 4 failures in a row
      And "semantic" has failed 2 times
      When thread A records a failure of "semantic": it has read the count and not yet written it
      And thread B records a failure of "semantic": it has read the count and not yet written it
      And thread A runs to its end
      And thread B runs to its end
      Then the naive count of "semantic" is 3 after 4 failures
      And "semantic" is enabled

    Scenario Outline: <threads> threads that record <each> failures each are counted to the last one
      Given circuit breakers that open after <threshold> failures in a row
      When <threads> threads record <each> failures each, all starting at once, of one after the other of 50 strategies
      Then of each strategy 0 failures opened the breaker, and <counted> were counted
      And each strategy is enabled with <counted> failures counted

      Examples:
        | threads | each | threshold | counted |
        | 2       | 499  | 1000      | 998     |
        | 4       | 200  | 801       | 800     |
        | 8       | 100  | 801       | 800     |
        | 16      | 62   | 993       | 992     |

    Scenario Outline: Of <threads> threads whose failures add up to the threshold exactly one opens the breaker
      Given circuit breakers that open after <threshold> failures in a row
      When <threads> threads record <each> failures each, all starting at once, of one after the other of 50 strategies
      Then of each strategy 1 failure opened the breaker, and <counted> were counted
      And each strategy is disabled

      Examples:
        | threads | each | threshold | counted |
        | 3       | 1    | 3         | 2       |
        | 2       | 500  | 1000      | 999     |
        | 8       | 125  | 1000      | 999     |
        | 20      | 50   | 1000      | 999     |

    Scenario: Strategies are counted apart, also when they are new to all threads at once
      Given circuit breakers that open after 1000 failures in a row
      When 8 threads record 50 failures of each of "semantic", "keyword" and "recent", all starting at once
      Then "semantic" is enabled with 400 failures counted
      And "keyword" is enabled with 400 failures counted
      And "recent" is enabled with 400 failures counted

  Rule: Concurrent calls to record_success() and record_failure() do not corrupt the disabled set

    Scenario Outline: When another thread <does> between the reading and the writing of a failure, that is not undone
      Given circuit breakers that open after 3 failures in a row
      And "semantic" has failed 2 times
      When thread A records a failure of "semantic": it has read the count and not yet written it
      And thread B <does> from beginning to end
      And thread A runs to its end
      Then thread A sees that its failure was counted
      And "semantic" is enabled with 1 failure counted

      Examples:
        | does                           |
        | records a success of "semantic" |
        | resets "semantic"              |
        | resets all strategies          |

    @naive
    Scenario Outline: When another thread <does> between reading and writing, the naive breaker disables the strategy all the same
      Given naive circuit breakers that open after 3 failures in a row
      And "semantic" has failed 2 times
      When thread A records a failure of "semantic": it has read the count and not yet written it
      And thread B <does> from beginning to end
      And thread A runs to its end
      Then "semantic" is disabled
      And the naive count of "semantic" is 3 after 1 failure

      Examples:
        | does                           |
        | records a success of "semantic" |
        | resets "semantic"              |
        | resets all strategies          |

    Scenario: A success comes before or after the failure that opens the breaker, and never into the middle of it
      Given circuit breakers that open after 3 failures in a row
      When in 300 rounds a success and the third failure in a row of "semantic" meet
      Then after each round the strategy is enabled, and both threads report the same order

    @naive
    Scenario: A success of the naive breaker re-enables a strategy that has just been disabled, and retains its count
      Given naive circuit breakers that open after 3 failures in a row
      When thread A records a success of "semantic": it has set the count to 0 and not yet touched the disabled set
      And "semantic" has failed 3 times
      And "semantic" is seen to be disabled
      And thread A runs to its end
      Then "semantic" is enabled
      And the naive count of "semantic" is 3 after 3 failures

    Scenario Outline: <threads> threads that succeed and fail at random leave a breaker that is open exactly if it opened last
      Given circuit breakers that open after 3 failures in a row
      When <threads> threads record <each> outcomes of "semantic" each, all starting at once
      Then "semantic" was opened one time more than it was closed if it is disabled, and otherwise equally often

      Examples:
        | threads | each |
        | 2       | 2000 |
        | 8       | 1000 |

  Rule: No deadlocks introduced (lock is non-reentrant; no nested lock acquisition)

    Scenario Outline: <threads> threads that call every operation at once all come to their end
      Given circuit breakers that open after 3 failures in a row
      When <threads> threads call every operation on "semantic", "keyword" and "recent" <each> times, all starting at once
      Then all of them came to their end, and no breaker is broken

      Examples:
        | threads | each |
        | 2       | 1000 |
        | 8       | 500  |

    Scenario: No lock is held while the clock is read, so a clock that calls the breakers back blocks no thread
      Given circuit breakers that open after 3 failures in a row, on a clock that calls them back
      And "semantic" has failed 2 times
      When thread A records a failure of "semantic"
      Then thread A sees that its failure opened the breaker
      And "semantic" is disabled

  Rule: ParallelStrategyExecutor is safe under concurrent pipeline invocations

    Scenario Outline: <pipelines> pipelines in which a strategy <misbehaves> at the same moment are all counted
      Given circuit breakers that open after <threshold> failures in a row
      And pipelines that run at most 4 strategies at once
      When <pipelines> pipelines run at once, and in each "semantic" <misbehaves> as soon as it has begun in all, while "keyword" finds something
      Then every pipeline reports that "semantic" <misbehaves> and that "keyword" found something
      And <counted> failures were counted, <opened> opened the breaker, and <late> came when it was open already
      And the events say <opened> times that "semantic" was disabled

      Examples:
        | pipelines | threshold | misbehaves | counted | opened | late |
        | 2         | 3         | fails      | 2       | 0      | 0    |
        | 3         | 3         | fails      | 2       | 1      | 0    |
        | 4         | 4         | fails      | 3       | 1      | 0    |
        | 4         | 4         | panics     | 3       | 1      | 0    |
        | 4         | 3         | fails      | 2       | 1      | 1    |
        | 4         | 5         | fails      | 4       | 0      | 0    |

    @naive
    Scenario: Two pipelines that share the naive breaker never disable a strategy that failed as often as it may
      Given naive circuit breakers that open after 2 failures in a row
      When pipeline A runs "semantic", which fails: it has read the count and not yet written it
      And pipeline B runs "semantic", which fails: it has read the count and not yet written it
      And thread A runs to its end
      And thread B runs to its end
      Then the naive count of "semantic" is 1 after 2 failures
      And "semantic" is enabled

    Scenario: A disabled strategy is skipped, which is said, and the others run
      Given circuit breakers that open after 3 failures in a row
      And pipelines that run at most 4 strategies at once
      And "semantic" has failed 3 times
      When a pipeline runs "semantic" and "keyword"
      Then the pipeline reports that "semantic" is disabled for 30 seconds and that "keyword" found something

    Scenario Outline: After the cool-down one of <pipelines> pipelines tries the strategy, and its success enables it for all
      Given circuit breakers that open after 3 failures in a row
      And pipelines that run at most 4 strategies at once
      And "semantic" has failed 3 times
      And 30 seconds have passed
      When one pipeline tries "semantic" and is in the middle of it
      And <others> other pipelines run "semantic" at once
      Then all others see that "semantic" is being tried
      When the one that tries "semantic" succeeds
      Then "semantic" is enabled with 0 failures counted
      And the events say 1 time that "semantic" was enabled

      Examples:
        | pipelines | others |
        | 2         | 1      |
        | 4         | 3      |
        | 9         | 8      |
