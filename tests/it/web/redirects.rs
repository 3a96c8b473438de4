//! Where redirects may lead.

use peacrab::tools::web::redirects::resolve_redirect;
use url::Url;

fn leads(from: &str, to: &str) -> Result<String, String> {
    let place = resolve_redirect(&Url::parse(from).unwrap(), to.as_bytes());
    place.map(String::from).map_err(|error| error.to_string())
}

#[test]
fn redirects_keep_what_is_encrypted_so() {
    let page = "https://a.example/dir/page?x=1";
    assert_eq!(leads(page, "other#part"), Ok("https://a.example/dir/other".to_owned()));
    assert_eq!(leads(page, "//b.example"), Ok("https://b.example/".to_owned()));
    assert_eq!(leads("http://a.example", page), Ok(page.to_owned()));
    let words = "https://a.example/dir/page?x=1 cannot be fetched: it is redirected to an address that is \
                 not encrypted; if that is as good, fetch http://b.example/x.";
    assert_eq!(leads(page, "http://user:geheim@b.example/x"), Err(words.to_owned()));
    assert_eq!(leads(page, "HTTP:x"), Err(words.replace("b.example/x", "x/")));
    assert!(leads(page, "https://[").is_err());
}
