//! Versions of the program, and their order.

/// A version such as `1.2.0` or `1.2.0-rc.1`. Versions compare as semver describes (<https://semver.org>, 11), and digits
/// after letters count as a number there, too: `rc10` comes after `rc9`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    numbers: [u64; 3],
    stage: ReleaseStage,
}

/// In the order of a version's life.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReleaseStage {
    /// The identifiers after the hyphen.
    Early(Vec<EarlyIdentifier>),
    Final,
}

/// A number comes before a text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EarlyIdentifier {
    Number(u64),
    Text(Vec<IdentifierRun>),
}

/// A part of an identifier: digits, or anything but digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum IdentifierRun {
    Number(u64),
    Text(String),
}

impl Version {
    /// Parses a version. None if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        // A plus sign begins the name of a build, which says nothing about the order.
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let (numbers, early) = match text.split_once('-') {
            Some((numbers, early)) => (numbers, Some(early)),
            None => (text, None),
        };
        let numbers: Vec<u64> =
            numbers.split('.').map(|it| it.parse::<u64>().ok()).collect::<Option<_>>()?;
        let stage = match early {
            Some(early) => {
                ReleaseStage::Early(early.split('.').map(parse_identifier).collect::<Option<_>>()?)
            }
            None => ReleaseStage::Final,
        };
        Some(Self { numbers: numbers.try_into().ok()?, stage })
    }
}

fn parse_identifier(text: &str) -> Option<EarlyIdentifier> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if text.is_empty() || !text.bytes().all(is_allowed) {
        return None;
    }
    if let Ok(number) = text.parse() {
        return Some(EarlyIdentifier::Number(number));
    }
    let same_kind = |a: &u8, b: &u8| a.is_ascii_digit() == b.is_ascii_digit();
    let runs = text.as_bytes().chunk_by(same_kind).map(|run| {
        let run = String::from_utf8_lossy(run).into_owned();
        run.parse::<u64>().map_or(IdentifierRun::Text(run), IdentifierRun::Number)
    });
    Some(EarlyIdentifier::Text(runs.collect()))
}
