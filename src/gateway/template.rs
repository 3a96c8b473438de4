//! Templates of webhooks: texts with places for values of a request. In every build, because the config has them.

use std::str::FromStr;

/// A text with places. `{{` and `}}` stand for braces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Vec<TemplatePart>);

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    Text(String),
    /// `{body}`
    Body,
    /// `{header:NAME}`, in lower case.
    Header(String),
    /// `{repository.name}`: the way to a value in a body of JSON.
    Value(Vec<String>),
}

impl FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), text);
        let mut plain = String::new();
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let (sign, after) = rest[at..].split_at(1);
            if let Some(after) = after.strip_prefix(sign) {
                plain.push_str(sign);
                rest = after;
                continue;
            }
            let Some((place, after)) = after.split_once('}').filter(|_| sign == "{") else {
                return Err(format!("has a single `{sign}`; write `{sign}{sign}` for a brace"));
            };
            if !plain.is_empty() {
                parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
            }
            parts.push(place.trim().parse()?);
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(plain));
        }
        Ok(Self(parts))
    }
}

impl FromStr for TemplatePart {
    type Err = String;

    fn from_str(place: &str) -> Result<Self, String> {
        let fits = |sign: char| sign.is_alphanumeric() || sign == '_' || sign == '-';
        let is_name = |name: &str| !name.is_empty() && name.chars().all(fits);
        match place.split_once(':') {
            Some(("header", name)) if is_name(name) => Ok(Self::Header(name.to_ascii_lowercase())),
            None if place == "body" => Ok(Self::Body),
            None if place.split('.').all(is_name) => {
                Ok(Self::Value(place.split('.').map(str::to_owned).collect()))
            }
            _ => Err("has an unknown placeholder; there are {body}, {header:NAME} and {key.key}"
                .to_owned()),
        }
    }
}

impl Template {
    /// Returns the text with what `value` returns for each place.
    pub fn render(&self, value: impl Fn(&TemplatePart) -> String) -> String {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) => text.clone(),
            place => value(place),
        };
        self.0.iter().map(part).collect()
    }
}
