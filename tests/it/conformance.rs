//! What every chat platform has to keep, tried on each in the same words: the real daemon with the
//! real adapter, against the platform's stand-in. The model is a script.

#[cfg(feature = "discord")]
mod discord;
mod groups;
mod promises;
mod scene;
#[cfg(feature = "slack")]
mod slack;
mod stage;
#[cfg(feature = "telegram")]
mod telegram;
mod troubles;

/// Makes the tests of one platform.
macro_rules! each_keeps {
    ($stage:ty: $($of:ident { $($promise:ident),+ $(,)? })+) => {
        $($(
            #[tokio::test]
            async fn $promise() {
                $crate::conformance::$of::$promise::<$stage>().await;
            }
        )+)+
    };
}

/// All promises, for one platform.
macro_rules! conforms {
    ($stage:ty) => {
        $crate::conformance::each_keeps! { $stage:
            promises {
                answers_a_private_message_once,
                answers_a_mention_in_reply_to_it_and_has_heard_the_rest,
                answers_in_the_thread_that_asked,
                answers_once_what_is_delivered_twice,
                keeps_the_order_of_twenty_quick_messages,
                brings_an_answer_of_three_messages_in_order,
                shows_markup_as_the_platform_has_it,
                attaches_an_answer_that_is_too_long_to_be_read,
                keeps_a_file_that_a_person_sends,
                sends_a_file_byte_for_byte,
                lets_a_draft_grow_into_the_answer,
                shows_that_it_works,
                puts_a_sign_at_what_it_takes_up,
                takes_one_press_of_whom_it_asked,
                answers_what_was_changed_as_it_is_now,
                answers_what_was_changed_to_speak_to_nobody,
                leaves_alone_what_was_deleted,
                pings_nobody,
            }
            groups {
                answers_every_line_where_it_is_to,
                hears_nothing_where_it_is_off,
                hears_no_other_bot,
                hears_another_bot_that_it_is_told_of,
                needs_a_mention_only_until_it_takes_part_in_a_thread,
                stops_without_a_mention,
                remembers_an_edited_line_as_it_is_now,
                shows_no_second_time_a_line_that_is_edited,
                answers_a_line_that_is_edited_to_mention_it,
                answers_no_line_to_others_that_is_edited,
                answers_no_old_message_that_is_edited,
            }
            troubles {
                waits_as_long_as_a_rate_limit_says,
                waits_out_a_rate_limit_that_says_nothing,
                sends_again_after_a_server_error,
                answers_once_though_a_call_hangs,
                answers_once_though_the_connection_is_cut_after_it_was_taken,
                answers_once_though_the_receipt_is_garbage,
                waits_while_a_server_fails_for_long,
                gives_up_a_file_that_fails_while_others_arrive,
                leaves_no_draft_beside_an_answer_over_a_slow_link,
                edits_again_when_the_last_edit_fails,
                answers_once_what_is_said_while_the_link_is_down,
                notices_a_silent_link,
                begins_anew_what_is_never_confirmed,
                goes_on_elsewhere_when_a_token_is_revoked,
                comes_up_once_there_is_a_network,
                names_an_address_where_somebody_else_answers,
                names_an_address_where_nobody_answers,
                answers_once_what_is_said_during_a_restart,
                keeps_two_bots_of_one_platform_apart,
            }
        }
    };
}

use {conforms, each_keeps};
