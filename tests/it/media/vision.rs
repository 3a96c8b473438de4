//! Pictures for models that see: in both formats, the newest only, and never what spoils a
//! conversation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use peacrab::provider::{self, Config, ProviderKind, Tools};
use peacrab::secret::Secret;
use serde_json::{Value, json};

use super::*;
use crate::support::fake_channel::FetchBehavior;
use crate::support::model_api::{KEY, MODEL, ModelApi, Platform, Reply};
use crate::support::script::{Reply as Says, calls, says};

fn answer(platform: Platform) -> Reply {
    Reply::events(&match platform {
        Platform::OpenAi => vec![
            json!({"choices": [{"index": 0, "delta": {"content": "seen"}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        ],
        Platform::Anthropic => vec![
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "seen"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}),
            json!({"type": "message_stop"}),
        ],
    })
}

async fn rig_before(api: &ModelApi, images: bool) -> Rig {
    let kind = match api.platform {
        Platform::OpenAi => ProviderKind::OpenAi,
        Platform::Anthropic => ProviderKind::Anthropic,
    };
    let config = Config {
        kind,
        model: MODEL.to_owned(),
        api_key: Some(Secret::new(KEY)),
        base_url: api.base_url.clone(),
        tokens_max: Some(1000),
        context: 100_000,
        context_is_set: true,
        tools: Tools::Native,
        structured: Default::default(),
        images,
        timeouts: Default::default(),
        price: None,
    };
    let provider = Some(provider::connect("main", &config).unwrap());
    let rig = Rig::of(RigOptions { provider, ..taking(LIMITS) }).await;
    rig.home.has_file("jpeg", [FetchBehavior::Bytes(JPEG.to_vec())]);
    rig.home.has_file("png", [FetchBehavior::Bytes(PNG.to_vec())]);
    rig
}

/// What the last message of the last request holds, without its words.
fn shown(api: &ModelApi) -> Vec<Value> {
    let requests = api.requests();
    let last = requests.last().unwrap()["messages"].as_array().unwrap().last().unwrap();
    let parts = last["content"].as_array().cloned().unwrap_or_default();
    parts.into_iter().filter(|part| part["type"] != "text").collect()
}

#[tokio::test]
async fn models_that_see_are_shown_pictures_in_their_own_format() {
    for platform in [Platform::OpenAi, Platform::Anthropic] {
        let api = ModelApi::start(platform).await;
        let mut rig = rig_before(&api, true).await;
        api.reply(answer(platform));
        // Whatever the platform calls it.
        let sticker =
            MediaRef { kind: MediaKind::Sticker, mime: Some("image/webp".into()), ..photo("png") };
        send(&rig, "1", "what is this?", [photo("jpeg"), sticker]);
        assert_eq!(rig.next_message("1").await, "seen");
        let expected = [("image/jpeg", JPEG), ("image/png", PNG)].map(|(mime, bytes)| {
            let data = STANDARD.encode(bytes);
            match platform {
                Platform::OpenAi => {
                    let url = format!("data:{mime};base64,{data}");
                    json!({"type": "image_url", "image_url": {"url": url}})
                }
                Platform::Anthropic => json!({"type": "image",
                    "source": {"type": "base64", "media_type": mime, "data": data}}),
            }
        });
        assert_eq!(shown(&api), expected);
        // After a restart as before it.
        rig.stop_and_start_again().await;
        api.reply(answer(platform));
        rig.ask("1", "sure?").await;
        let whole = api.requests().last().unwrap().to_string();
        assert!(whole.contains(&STANDARD.encode(JPEG)), "{whole}");
        rig.finish().await;
        api.finish();
    }
}

#[tokio::test]
async fn models_that_do_not_see_are_told_in_words() {
    for platform in [Platform::OpenAi, Platform::Anthropic] {
        let api = ModelApi::start(platform).await;
        let mut rig = rig_before(&api, false).await;
        api.reply(answer(platform));
        send(&rig, "1", "what is this?", [photo("jpeg")]);
        rig.next_message("1").await;
        assert_eq!(shown(&api), Vec::<Value>::new());
        assert!(api.requests()[0].to_string().contains("[photo: downloads/"));
        rig.finish().await;
        api.finish();
    }
}

#[tokio::test]
async fn a_request_that_is_refused_for_a_picture_is_made_without() {
    let api = ModelApi::start(Platform::Anthropic).await;
    let mut rig = rig_before(&api, true).await;
    api.reply(Reply::error(
        400,
        &json!({"type": "error", "error": {
        "type": "invalid_request_error", "message": "Could not process image"}}),
    ));
    api.reply(answer(Platform::Anthropic));
    send(&rig, "1", "what is this?", [photo("jpeg")]);
    assert_eq!(rig.next_message("1").await, "seen");
    assert_eq!(shown(&api), Vec::<Value>::new());
    rig.finish().await;
    api.finish();
}

/// The images of what the model was asked last.
fn images(rig: &Rig) -> Vec<String> {
    let asked = rig.model.last().messages;
    asked.iter().filter_map(|line| Some(line.strip_prefix("image: ")?.to_owned())).collect()
}

#[tokio::test]
async fn shows_the_pictures_of_the_three_newest_steps_that_have_any() {
    let mut rig = rig().await;
    rig.home.has_file("a", [FetchBehavior::Bytes(JPEG.to_vec())]);
    for n in 1..=4 {
        send(&rig, "1", &format!("see {n}"), [photo("a")]);
        rig.next_message("1").await;
        rig.ask("1", "and in words").await;
    }
    let shown = images(&rig);
    let expected: Vec<_> =
        inbox(&rig)[1..].iter().map(|path| format!("{path} image/jpeg")).collect();
    assert_eq!(shown, expected);
    rig.finish().await;
}

#[tokio::test]
async fn shows_the_pictures_of_an_answer_to_a_question() {
    let mut rig = rig().await;
    rig.home.has_file("a", [FetchBehavior::Bytes(JPEG.to_vec())]);
    let asks = || calls(&[("ask_question", json!({"question": "Which crab?"}))]);
    rig.model.on("name", [asks()]);
    rig.model.on("came with the answer", [says("A pea crab.")]);
    assert_eq!(rig.ask("1", "name the crab").await, "Which crab?");
    send(&rig, "1", "this one", [photo("a")]);
    assert_eq!(rig.next_message("1").await, "A pea crab.");
    let expected: Vec<_> = inbox(&rig).iter().map(|path| format!("{path} image/jpeg")).collect();
    assert_eq!((images(&rig), expected.len()), (expected.clone(), 1));
    assert!(
        rig.model.last().transcript().contains("[The pictures that came with the answer above.]")
    );
    // And again, also after a restart.
    rig.stop_and_start_again().await;
    rig.ask("1", "how large is it?").await;
    assert_eq!(images(&rig), expected);
    rig.finish().await;
}

#[tokio::test]
async fn shows_only_what_is_a_picture_and_still_there() {
    let mut rig = rig().await;
    rig.home.has_file("jpeg", [FetchBehavior::Bytes(JPEG.to_vec())]);
    rig.home.has_file("fake", [FetchBehavior::Bytes(b"<html>".to_vec())]);
    let fake = MediaRef { mime: Some("image/jpeg".to_owned()), ..photo("fake") };
    let gone: Says = says("one");
    rig.model.on("see", [gone]);
    let document = file(MediaKind::Document, "jpeg", Some("scan.jpg"));
    let five = (0..4).map(|_| photo("jpeg"));
    send(&rig, "1", "see", [fake, document].into_iter().chain(five));
    rig.next_message("1").await;
    let shown = images(&rig);
    let expected = &inbox(&rig)[1..5];
    assert_eq!(shown.len(), 4);
    assert!(shown.iter().zip(expected).all(|(shown, path)| shown.starts_with(path)), "{shown:?}");
    let root = rig.path();
    fs::remove_file(root.join(&expected[0])).unwrap();
    fs::write(root.join(&expected[1]), "words").unwrap();
    fs::write(root.join(&expected[2]), vec![0xff; 6_000_000]).unwrap();
    rig.ask("1", "again").await;
    assert_eq!(images(&rig), [format!("{} image/jpeg", expected[3])]);
    rig.finish().await;
}

#[tokio::test]
async fn shows_no_more_than_a_small_board_can_hold_the_newest_first() {
    let mut rig = rig().await;
    rig.home.has_file("a", [FetchBehavior::Bytes(JPEG.to_vec())]);
    for n in 1..=3 {
        send(&rig, "1", &format!("see {n}"), [photo("a")]);
        rig.next_message("1").await;
    }
    let files = inbox(&rig);
    let mut large = JPEG.to_vec();
    large.resize(1_400_000, 0);
    files.iter().for_each(|file| fs::write(rig.path().join(file), &large).unwrap());
    rig.ask("1", "again").await;
    let expected: Vec<_> = files[1..].iter().map(|path| format!("{path} image/jpeg")).collect();
    assert_eq!(images(&rig), expected);
    rig.finish().await;
}
