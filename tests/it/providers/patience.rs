//! Retries and fallbacks.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use peacrab::provider::retry::{Retry, RetryOptions};
use peacrab::provider::{self, DeltaStream, StopReason};

use super::*;

const HASTY: RetryOptions = RetryOptions {
    attempts_max: 4,
    waiting_max: Duration::from_secs(10),
    pause: Duration::from_millis(2),
};

fn patient(api: &ModelApi) -> Arc<dyn Provider> {
    Arc::new(Retry::new(provider(api), HASTY))
}

fn failing(status: u16) -> Reply {
    Reply::error(status, &json!({"error": {"message": "Oh no."}}))
}

#[tokio::test]
async fn comes_back_when_it_was_asked_to() {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.reply(failing(429).with_header("retry-after-ms", "120"));
    api.reply(Reply::events(&answer(Platform::OpenAi, "Hi")));
    let began = std::time::Instant::now();
    let (completion, deltas) = ask(&*patient(&api)).await;
    assert_eq!(completion.unwrap().text, "Hi");
    assert!(began.elapsed() >= Duration::from_millis(120));
    assert!(!deltas.contains(&Delta::Restart));
    api.finish();
}

#[tokio::test]
async fn gives_up_at_once_when_the_wait_is_too_long() {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.reply(failing(429).with_header("retry-after", "11"));
    let error = ask(&*patient(&api)).await.0.unwrap_err();
    assert!(matches!(error, ProviderError::Busy { after: Some(_), .. }), "{error:?}");
    api.finish();
}

#[tokio::test]
async fn gives_up_after_four_attempts() {
    let api = ModelApi::start(Platform::Anthropic).await;
    (0..4).for_each(|_| api.reply(failing(503)));
    let error = ask(&*patient(&api)).await.0.unwrap_err();
    assert_eq!(error.to_string(), "the server is overloaded (503: Oh no.)");
    api.finish();
}

#[tokio::test]
async fn does_not_repeat_what_cannot_succeed() {
    let api = ModelApi::start(Platform::Anthropic).await;
    for (status, body) in [(401, "{}"), (413, "{}")] {
        api.reply(Reply::page(status, "application/json", body));
        ask(&*patient(&api)).await.0.unwrap_err();
    }
    api.finish();
}

#[tokio::test]
async fn begins_a_broken_answer_again() {
    for platform in [Platform::OpenAi, Platform::Anthropic] {
        let api = ModelApi::start(platform).await;
        api.reply(half_an_answer(platform, StreamEnding::Breaks));
        api.reply(half_an_answer(platform, StreamEnding::Breaks));
        api.reply(Reply::events(&answer(platform, "A whole answer")));
        let patient = Retry::new(connected(&config(&api), "main", SHORT_LIMITS), HASTY);
        let (completion, deltas) = ask(&patient).await;
        let completion = completion.unwrap();
        assert_eq!(completion.text, "A whole answer");
        assert_eq!(completion.stop, Some(StopReason::Done));
        let text = |text: &str| Delta::Text(text.to_owned());
        let shown: Vec<_> = deltas
            .into_iter()
            .filter(|delta| matches!(delta, Delta::Text(_) | Delta::Restart))
            .collect();
        assert_eq!(
            shown,
            [
                text("Half a"),
                Delta::Restart,
                text("Half a"),
                Delta::Restart,
                text("A whole answer")
            ]
        );
        api.finish();
    }
}

#[tokio::test]
async fn reports_a_stalled_answer_and_does_not_begin_it_again() {
    for platform in [Platform::OpenAi, Platform::Anthropic] {
        let api = ModelApi::start(platform).await;
        api.reply(half_an_answer(platform, StreamEnding::Stalls));
        let patient = Retry::new(connected(&config(&api), "main", SHORT_LIMITS), HASTY);
        let error = ask(&patient).await.0.unwrap_err();
        assert!(matches!(error, ProviderError::Stalled(_)), "{error:?}");
        api.finish();
    }
}

/// Is busy for ever, and takes its time to say so.
#[derive(Default)]
struct SlowlyFailingProvider {
    asked: AtomicUsize,
}

#[async_trait]
impl Provider for SlowlyFailingProvider {
    fn name(&self) -> &'static str {
        "slow"
    }

    async fn stream<'a>(
        &'a self,
        _request: &'a Request<'a>,
    ) -> Result<DeltaStream<'a>, ProviderError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(40)).await;
        Err(ProviderError::busy("slow"))
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_wait_longer_than_a_person_would() {
    let slow = Arc::new(SlowlyFailingProvider::default());
    let patient = Retry::new(slow.clone(), RetryOptions::default());
    ask(&patient).await.0.unwrap_err();
    assert_eq!(slow.asked.load(Ordering::Relaxed), 2);
}

/// Two fakes behind one chain.
async fn main_and_spare() -> (ModelApi, ModelApi, Arc<dyn Provider>) {
    let main = ModelApi::start(Platform::Anthropic).await;
    let spare = ModelApi::start(Platform::OpenAi).await;
    let named = |api, name: &str| -> Arc<dyn Provider> {
        Arc::new(Retry::new(connected(&config(api), name, LIMITS), HASTY))
    };
    let chain = provider::chain(vec![named(&main, "main"), named(&spare, "spare")]);
    (main, spare, chain)
}

#[tokio::test]
async fn lets_the_spare_answer_and_says_so() {
    let (main, spare, chain) = main_and_spare().await;
    assert_eq!(chain.name(), "main (pea-1)");
    main.reply(failing(401));
    spare.reply(Reply::events(&answer(Platform::OpenAi, "Hi")));
    let (completion, deltas) = ask(&*chain).await;
    let completion = completion.unwrap();
    let note = "(main (pea-1) is unavailable: the key was not accepted; copy it again (401: Oh no.), so \
                spare (pea-1) answered.)";
    assert_eq!((&*completion.text, completion.note.as_deref()), ("Hi", Some(note)));
    assert_eq!(deltas[0], Delta::Note(note.to_owned()));

    // The first is asked first again.
    main.reply(Reply::events(&answer(Platform::Anthropic, "Hi again")));
    assert_eq!(ask(&*chain).await.0.unwrap().note, None);
    main.finish();
    spare.finish();
}

#[tokio::test]
async fn forgets_what_the_first_had_begun() {
    let (main, spare, chain) = main_and_spare().await;
    (0..4).for_each(|_| main.reply(half_an_answer(main.platform, StreamEnding::Closes)));
    spare.reply(half_an_answer(spare.platform, StreamEnding::Closes));
    spare.reply(Reply::events(&answer(spare.platform, "Whole")));
    let (completion, deltas) = ask(&*chain).await;
    let completion = completion.unwrap();
    assert_eq!(completion.text, "Whole");
    assert!(completion.note.unwrap().ends_with("spare (pea-1) answered.)"));
    assert_eq!(deltas.iter().filter(|delta| **delta == Delta::Restart).count(), 5);
    main.finish();
    spare.finish();
}

#[tokio::test]
async fn asks_a_model_with_more_room_and_passes_on_that_none_has_enough() {
    let (main, spare, chain) = main_and_spare().await;
    main.reply(failing(413));
    spare.reply(Reply::events(&answer(Platform::OpenAi, "It fits.")));
    assert_eq!(ask(&*chain).await.0.unwrap().text, "It fits.");
    main.reply(failing(413));
    spare.reply(failing(401));
    let error = ask(&*chain).await.0.unwrap_err();
    assert!(matches!(error, ProviderError::TooLong), "{error:?}");
    main.finish();
    spare.finish();
}

#[tokio::test]
async fn tells_every_failure_when_all_fail() {
    let (main, spare, chain) = main_and_spare().await;
    main.reply(failing(401));
    spare.reply(failing(429).with_header("retry-after", "30"));
    let error = ask(&*chain).await.0.unwrap_err();
    let ProviderError::Busy { after: Some(after), reason } = error else { panic!("{error:?}") };
    assert_eq!(after, Duration::from_secs(30));
    assert_eq!(
        reason,
        "main (pea-1): the key was not accepted; copy it again (401: Oh no.); \
         spare (pea-1): the rate limit is reached (429: Oh no.)"
    );

    main.reply(failing(401));
    spare.reply(failing(404));
    let error = ask(&*chain).await.0.unwrap_err();
    assert!(matches!(error, ProviderError::Refused(_)), "{error:?}");
    main.finish();
    spare.finish();
}

#[tokio::test]
async fn ends_the_stream_after_its_end() {
    let api = ModelApi::start(Platform::OpenAi).await;
    api.reply(Reply::events(&answer(Platform::OpenAi, "Hi")));
    let config = config(&api);
    let chain = provider::chain(vec![provider::connect("main", &config).unwrap()]);
    let input = [hearing("Hello?")];
    let (messages, pictures) = (messages(&input), &Pictures::default());
    let request = Request {
        system: &[],
        tools: &[],
        facts: &[],
        may_call: true,
        effort: Effort::Default,
        attempts: Attempts::Usual,
        tokens_max: None,
        messages,
        pictures,
    };
    let deltas: Vec<_> = chain.stream(&request).await.unwrap().collect().await;
    assert!(matches!(deltas.last(), Some(Ok(Delta::End(StopReason::Done)))));
    assert_eq!(deltas.iter().filter(|delta| matches!(delta, Ok(Delta::End(_)))).count(), 1);
    api.finish();
}
