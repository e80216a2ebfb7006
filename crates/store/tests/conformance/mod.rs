//! The conformance suite: what every store promises, whatever it keeps its rows in.
//!
//! A promise is a function that takes a [`Bench`]: an empty store, its clock and the hands of workers. The
//! list at the end names them all; `conformance!(name, factory)` makes a test of each for one store.
//!
//! # Where to look
//! | file | what is promised |
//! |---|---|
//! | `changesets` | an entry is in one place, under one number; what is closed stays |
//! | `errors` | what failed is kept, counted once, and decided on by what was counted |
//! | `jobs` | who waits, who is served next, how a job ends |
//! | `leases` | who is silent for too long is replaced |
//! | `cancels` | a cancel wins over what comes after it, and over nothing before |
//! | `fencing` | who does not own the job writes nothing |
//! | `concurrency` | changesets and errors, by many threads at once |
//! | `contention` | jobs, by many threads at once |
//!
//! # Invariants
//! 1. Every promise is in the list: one that is not is an unused function, which the compiler tells.
//! 2. Time stands still unless a promise moves it, and threads start when all are there: nothing sleeps.
//!
//! # Not here
//! What only some stores do: to survive a crash, to be opened twice, to run out of space.

mod bench;
pub(crate) mod cancels;
pub(crate) mod changesets;
pub(crate) mod concurrency;
pub(crate) mod contention;
pub(crate) mod errors;
pub(crate) mod fencing;
pub(crate) mod jobs;
pub(crate) mod leases;
mod sample;

pub(crate) use bench::{Bench, MakeStore};

/// Tries every promise on the store that the factory makes.
macro_rules! conformance {
    ($store:ident, $make:expr) => {
        conformance! { @list $store, $make,
            changesets {
                a_started_changeset_is_visible_open_and_empty,
                a_plan_that_nobody_knows_has_no_changesets,
                an_id_started_again_is_the_same_changeset,
                entries_are_numbered_without_gaps_in_their_changeset_and_in_the_plan,
                a_refused_entry_takes_no_number,
                each_plan_counts_for_itself,
                an_entry_comes_back_as_it_was_recorded,
                a_change_recorded_again_is_answered_as_the_first_time,
                another_change_under_a_known_id_is_refused,
                a_closed_changeset_hands_the_entry_back,
                recording_without_a_name_goes_into_the_latest_that_is_open,
                with_nothing_open_recording_without_a_name_says_so,
                a_changeset_of_nobody_or_of_another_plan_is_unknown,
                closing_again_gives_the_same_answer,
                the_digest_tells_any_difference,
                finishing_ends_what_is_open_and_nothing_else,
                ten_thousand_opened_and_closed_leave_none_open,
            }
            errors {
                a_plan_without_errors_has_an_empty_history,
                an_error_comes_back_as_it_was_recorded,
                the_jitter_of_the_caller_spreads_the_wait,
                retries_end_at_the_limits_of_step_and_plan,
                a_history_goes_on_with_the_next_job_and_the_next_attempt,
                an_error_recorded_again_is_counted_once_and_adds_its_details,
                a_history_keeps_the_newest_100_and_counts_the_rest,
                the_oldest_kept_error_is_still_known_by_its_id,
                errors_of_one_plan_do_not_count_for_another,
            }
            jobs {
                a_queued_job_is_kept_as_it_was_given,
                a_job_queued_again_is_one_job,
                an_id_of_another_plan_or_phase_is_refused,
                a_plan_has_one_live_job,
                ten_thousand_jobs_wait_and_no_more,
                a_claim_makes_its_worker_the_owner,
                jobs_are_served_and_listed_in_order_of_id,
                jobs_are_told_by_id_and_by_plan,
                no_job_is_claimed_before_it_is_due,
                a_worker_of_one_plan_serves_only_that,
                no_more_jobs_run_than_the_limit_allows,
                a_released_job_waits_again_and_has_no_owner,
                an_end_asked_for_again_gives_the_same_answer_and_another_none,
            }
            leases {
                a_heartbeat_renews_the_lease,
                a_lease_that_ran_out_is_taken_over_under_the_next_fence,
                a_lease_that_ran_out_is_still_its_owners_until_somebody_takes_it,
                work_that_lost_its_owner_goes_before_work_that_nobody_began,
                a_dead_owner_holds_no_slot_and_its_replacement_does,
                a_job_whose_worker_died_four_times_is_given_up,
                giving_up_alone_gives_the_worker_nothing,
                a_cancel_that_nobody_lived_to_acknowledge_is_taken_over_to_be_finished,
                a_settled_node_forgives_the_deaths_before_it,
                leases_of_another_boot_are_dead_at_once,
                only_the_clock_that_the_store_was_given_counts,
                the_leases_of_a_dead_worker_are_freed_and_no_others,
                a_takeover_interrupts_what_was_open_and_keeps_the_entries,
                no_open_changeset_outlives_its_owner,
                a_cancel_and_a_seal_outlive_their_owner,
            }
            cancels {
                a_queued_job_is_cancelled_at_once,
                a_running_job_is_cancelled_by_its_owner,
                a_cancel_that_nobody_asked_for_is_not_acknowledged,
                a_final_or_unknown_job_is_not_cancelled,
                a_cancel_before_every_other_end_wins,
                an_end_before_the_cancel_wins,
                a_release_before_the_cancel_lets_it_end_the_job,
                a_seal_before_the_cancel_wins_until_the_job_ends,
                only_an_apply_is_sealed,
            }
            fencing {
                the_owner_may_write,
                an_owner_that_was_replaced_writes_nothing,
                a_fence_that_was_never_given_writes_nothing,
                nobody_writes_for_a_job_that_waits,
                nobody_writes_for_a_job_that_has_ended,
                the_next_job_of_a_plan_is_not_open_to_the_owner_of_the_last,
                a_claim_of_no_job_of_the_plan_writes_nothing,
                a_claim_of_no_plan_writes_nothing,
            }
            concurrency {
                eight_threads_fill_each_its_own_changeset,
                eight_hundred_thousand_entries_lie_in_their_own_of_64_changesets,
                an_entry_without_a_name_is_in_the_latest_while_others_start,
                what_was_answered_before_the_close_is_what_was_closed,
                one_change_recorded_by_eight_is_one_entry,
                one_changeset_started_by_eight_is_one_changeset,
                a_takeover_beside_a_writing_owner_keeps_what_it_was_told_and_no_more,
                a_reader_beside_writers_sees_whole_steps_only,
                two_first_errors_of_a_plan_are_both_there,
                no_error_of_80_000_is_lost_and_no_retry_is_granted_twice,
                the_retries_of_a_plan_are_exact_over_all_its_steps,
                one_error_recorded_by_eight_is_counted_once,
            }
            contention {
                each_of_4_000_jobs_is_claimed_once_and_run_once,
                the_limit_holds_while_eight_claim_at_once,
                one_of_eight_takes_an_expired_lease_over,
                a_heartbeat_and_a_takeover_do_not_both_win,
                two_jobs_queued_for_one_plan_are_one_job,
                one_job_queued_by_eight_is_one_job,
                of_a_cancel_and_a_success_one_wins,
                of_a_cancel_and_a_seal_one_wins,
                of_two_cancellers_and_an_owner_one_acknowledges,
                of_a_claim_and_a_cancel_of_a_waiting_job_each_is_told_what_happened,
            }
        }
    };
    (@list $store:ident, $make:expr, $($part:ident { $($promise:ident,)* })*) => {
        mod $store {
            #[allow(unused_imports, reason = "a factory may spell out all that it names")]
            use super::*;

            const MAKE: crate::conformance::MakeStore = $make;

            $(mod $part {
                $(#[tokio::test(flavor = "multi_thread")]
                async fn $promise() {
                    let bench = crate::conformance::Bench::new(super::MAKE);
                    crate::conformance::$part::$promise(bench).await;
                })*
            })*
        }
    };
}
