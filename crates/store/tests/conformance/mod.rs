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
//! | `plans` | a plan is made whole, found, and forgotten whole |
//! | `moves` | who may move a plan, and how it follows its job |
//! | `decisions` | what was decided is numbered, rests upon what stands, and gives way to a revert |
//! | `calls` | a call ends with all that it changed, or not at all |
//! | `nodes` | a node is settled whole, with its last call, and stays settled |
//! | `contexts` | what a node was given is kept once, with its text |
//! | `contents` | bytes under their hash, as long as somebody names them |
//! | `ledger` | nothing is spent above a limit, and nothing is counted twice |
//! | `locks` | one holder at a time |
//! | `applies` | an apply is sealed or cancelled, and ends once |
//! | `consents` | a yes is to one content at one place |
//! | `events` | what happened is told, without gaps |
//! | `concurrency` | changesets and errors, by many threads at once |
//! | `contention` | jobs, by many threads at once |
//!
//! # Invariants
//! 1. Every promise is in the list: one that is not is an unused function, which the compiler tells.
//! 2. Time stands still unless a promise moves it, and threads start when all are there: nothing sleeps.
//!
//! # Not here
//! Promises that only some stores make: to survive a crash, to be opened twice, to run out of space.

pub(crate) mod applies;
mod bench;
pub(crate) mod calls;
pub(crate) mod cancels;
pub(crate) mod changesets;
pub(crate) mod concurrency;
pub(crate) mod consents;
pub(crate) mod contention;
pub(crate) mod contents;
pub(crate) mod contexts;
pub(crate) mod decisions;
pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod fencing;
pub(crate) mod jobs;
pub(crate) mod leases;
pub(crate) mod ledger;
pub(crate) mod locks;
pub(crate) mod moves;
pub(crate) mod nodes;
pub(crate) mod plans;
mod sample;
mod walk;

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
                plans_that_changed_something_are_listed_by_state_and_newest_first,
                ten_thousand_opened_and_closed_leave_none_open,
            }
            errors {
                a_plan_without_errors_has_an_empty_history,
                an_error_comes_back_as_it_was_recorded,
                what_a_model_was_told_is_recorded_and_changes_nothing_else,
                the_jitter_of_the_caller_spreads_the_wait,
                retries_end_at_the_limits_of_step_and_plan,
                a_history_goes_on_with_the_next_job_and_the_next_attempt,
                an_error_recorded_again_is_counted_once_and_adds_its_details,
                a_history_keeps_the_newest_100_and_counts_the_rest,
                what_models_were_told_gives_way_before_failures,
                the_oldest_kept_error_is_still_known_by_its_id,
                errors_of_one_plan_do_not_count_for_another,
            }
            jobs {
                a_queued_job_is_kept_as_it_was_given,
                a_job_queued_again_is_one_job,
                a_held_job_is_for_who_serves_its_plan_until_it_is_let_go,
                a_job_that_wants_keys_is_for_workers_that_have_them,
                a_job_that_is_asked_for_earlier_is_due_earlier_and_never_later,
                the_live_jobs_are_those_that_wait_or_run,
                an_id_of_another_plan_or_phase_is_refused,
                a_plan_has_one_live_job,
                ten_thousand_jobs_wait_and_no_more,
                a_claim_makes_its_worker_the_owner,
                jobs_are_served_and_listed_in_order_of_id,
                jobs_are_told_by_id_and_by_plan,
                no_job_is_claimed_before_it_is_due,
                some_jobs_are_claimed_at_once_in_their_order_and_within_the_limit,
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
                two_workers_of_one_name_are_told_apart_by_their_fences,
                the_leases_of_a_dead_worker_are_freed_and_no_others,
                a_takeover_interrupts_what_was_open_and_keeps_the_entries,
                no_open_changeset_outlives_its_owner,
                a_cancel_and_a_seal_outlive_their_owner,
            }
            cancels {
                a_queued_job_is_cancelled_at_once,
                of_all_who_cancel_a_running_job_one_is_the_first,
                a_running_job_is_cancelled_by_its_owner,
                a_cancel_that_nobody_asked_for_is_not_acknowledged,
                a_final_or_unknown_job_is_not_cancelled,
                a_cancel_before_every_other_end_wins,
                an_end_before_the_cancel_wins,
                a_release_before_the_cancel_lets_it_end_the_job,
                a_cancel_whose_owner_died_is_finished_though_no_slot_is_free,
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
            plans {
                a_plan_is_made_with_its_prompt_and_its_first_job,
                a_plan_made_again_is_one_plan,
                a_long_title_is_cut_and_the_plan_is_still_the_same,
                another_plan_under_a_known_id_is_refused,
                a_plan_that_cannot_have_its_job_is_not_made,
                a_plan_whose_strategy_is_known_begins_with_execute,
                with_a_full_queue_no_plan_is_made_and_none_moves,
                nobody_sees_half_a_plan,
                one_plan_made_by_eight_is_one_plan,
                an_unknown_plan_has_nothing,
                plans_are_listed_newest_first_and_by_what_is_asked_for,
                plans_are_found_by_how_their_id_begins,
                plans_are_found_by_how_their_id_ends,
                a_forgotten_plan_leaves_nothing_behind,
                only_a_final_plan_is_forgotten,
            }
            moves {
                every_move_by_hand_is_made_or_refused_as_the_table_says,
                a_move_from_an_old_version_shows_the_plan_as_it_stands,
                a_move_asked_for_again_is_made_once,
                a_move_and_its_job_are_made_together_or_not_at_all,
                a_plan_that_nobody_made_is_not_moved,
                a_move_keeps_what_the_person_chose,
                a_plan_without_its_job_can_be_given_one_and_no_other,
                attempts_and_reversions_are_counted_and_reversions_end,
                changes_that_come_with_a_move_are_recorded_with_it_or_not_at_all,
                a_cancelled_plan_is_left_by_a_revision_and_by_taking_its_work,
                a_plan_follows_its_job,
                a_constrained_plan_says_why_until_it_moves_on,
                a_takeover_leaves_the_plan_where_it_is_and_giving_up_fails_it,
                a_heartbeat_is_no_write_to_the_plan,
                of_eight_who_advance_a_plan_one_does,
                one_move_asked_for_by_eight_is_made_once,
                of_a_claim_and_a_cancel_the_plan_follows_the_one_that_won,
            }
            decisions {
                decisions_are_numbered_and_bounded,
                a_decision_that_rests_upon_nothing_is_refused_and_takes_no_number,
                several_decisions_are_recorded_in_one_step_or_none,
                decisions_that_eight_take_have_no_gaps_and_those_of_a_step_stand_together,
                what_a_person_says_is_kept_where_the_plan_stands_unless_it_is_final,
                a_revert_supersedes_all_but_the_prompt_in_its_step,
                a_revert_that_carries_no_reversion_writes_one,
                a_move_and_what_is_decided_with_it_are_made_together_or_not_at_all,
                a_plan_with_a_decision_that_rests_upon_nothing_is_not_made,
            }
            nodes {
                a_settled_node_comes_back_as_it_was_given,
                nodes_are_told_by_attempt_and_phase_and_then_as_they_were_settled,
                a_node_that_is_done_again_replaces_its_earlier_run,
                a_call_ends_together_with_the_nodes_that_it_settles_or_not_at_all,
                a_read_is_kept_together_with_the_node_that_it_settles_or_not_at_all,
                reads_that_end_together_are_kept_all_or_none,
                a_node_is_told_when_it_begins_and_when_it_is_settled,
                a_node_that_asks_a_model_counts_once_and_may_wait,
                a_replaced_owner_settles_nothing_and_what_is_settled_stays,
                nodes_that_eight_settle_at_once_are_all_there,
                what_was_settled_outlives_its_job_and_the_attempt,
            }
            contexts {
                a_context_comes_back_as_it_was_given_with_its_text,
                a_context_kept_again_is_one_context_and_told_once,
                who_lost_its_lease_keeps_no_context_and_nobody_keeps_one_for_another_plan,
                the_text_of_a_context_stays_as_long_as_its_plan,
            }
            consents {
                a_yes_is_to_one_content_at_one_root,
                a_yes_outlives_the_plans,
                a_revoked_root_has_no_yes,
            }
            calls {
                calls_are_numbered_from_one_in_each_attempt,
                calls_that_eight_begin_have_each_a_number,
                a_call_comes_back_as_it_ended_with_what_it_changed,
                a_call_that_changed_nothing_needs_no_changeset,
                a_call_ends_with_all_of_its_changes_or_not_at_all,
                an_unknown_call_does_not_end,
                a_call_ended_again_is_answered_as_the_first_time,
                a_call_may_end_after_the_gate_was_closed,
                a_replaced_owner_ends_no_call_and_the_next_may,
                entries_are_told_by_the_attempt_in_which_their_changeset_began,
                a_sandbox_is_kept_opened_and_closed,
            }
            contents {
                a_content_is_read_hashed_and_told_from_binary,
                a_content_comes_back_whole,
                an_unknown_hash_is_not_found,
                a_reader_that_fails_leaves_nothing_behind,
                what_is_named_by_an_entry_or_an_output_is_not_collected,
                a_dry_run_removes_nothing,
                a_content_that_two_plans_name_goes_with_the_last,
                a_large_content_that_waits_for_its_name_is_not_collected,
                a_large_content_that_nobody_named_in_time_is_collected,
                what_a_long_call_staged_is_not_collected_before_its_job_ends,
                whoever_collects_beside_calls_takes_nothing_that_they_name,
            }
            ledger {
                a_spend_is_reserved_and_then_settled_with_what_it_came_to,
                a_call_is_admitted_and_counted_in_one_step_or_not_at_all,
                what_was_reserved_is_the_most_that_is_settled,
                a_spend_reserved_again_is_reserved_once,
                a_step_counts_once_in_its_attempt_whoever_runs_it,
                settling_twice_is_once,
                a_limit_holds_before_anything_is_spent,
                the_limit_of_a_day_holds_for_all_plans_and_for_forgotten_ones,
                an_account_begins_with_what_its_plan_was_made_with,
                limits_are_set_together_and_never_below_what_is_taken,
                a_takeover_settles_what_the_dead_owner_left_as_assumed,
                a_call_that_changed_nothing_is_kept_with_its_end_and_counted,
                what_was_spent_already_is_added_up_to_the_limit,
                no_reserve_outlives_its_owner,
                of_twenty_who_reserve_at_once_none_goes_above_the_limit,
                one_spend_reserved_and_settled_by_eight_counts_once,
            }
            locks {
                a_lock_has_one_holder_who_is_named,
                a_lock_that_was_let_go_or_ran_out_is_taken_under_the_next_fence,
                a_late_release_or_renewal_touches_nothing_of_others,
                a_holder_that_renews_keeps_its_lock,
                a_lock_of_another_boot_is_free_at_once,
                one_of_eight_takes_a_lock,
                whoever_holds_the_lock_is_alone_until_it_lets_go,
            }
            applies {
                a_sealed_apply_is_kept_as_it_was_given,
                a_seal_asked_for_again_does_no_more_and_another_is_refused,
                a_cancel_before_the_seal_wins,
                a_seal_before_the_cancel_wins,
                of_a_cancel_and_a_seal_of_an_apply_one_wins,
                only_an_apply_of_the_owners_plan_is_sealed,
                an_apply_that_is_applied_ends_its_job_and_its_plan,
                an_apply_ends_once_whoever_says_so,
                an_apply_that_was_rolled_back_constrains_its_plan,
                an_apply_that_never_began_breaks_its_seal,
                a_seal_that_another_apply_needs_is_not_broken,
                an_apply_is_ended_for_an_owner_that_died,
                an_apply_whose_job_was_given_up_is_applied_all_the_same,
                a_plan_whose_apply_has_not_ended_is_not_moved_by_hand,
                an_undo_leaves_the_plan_applied_and_says_when,
                an_undo_that_did_not_come_about_changes_nothing,
                an_apply_that_failed_before_its_seal_leaves_no_apply,
                applies_that_have_not_ended_are_listed_and_no_others,
            }
            events {
                what_happened_is_told_in_pages,
                what_happened_is_told_by_kind_and_by_its_last_number,
                the_events_of_a_plan_retell_its_state,
                each_write_is_told_by_its_kind,
                what_is_asked_for_again_or_refused_is_told_by_nothing,
                events_that_eight_cause_have_no_gaps,
                readers_that_are_slow_leave_or_write_miss_nothing_and_harm_nobody,
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
