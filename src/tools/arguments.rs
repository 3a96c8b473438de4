//! Explains faults in a call's arguments to the model that wrote them: in terms of the schema that it got, not
//! in those of a parser.

use serde_json::{Map, Value};

/// Maximum number of faults in one explanation. With more, the model had better begin anew.
const FAULTS_MAX: usize = 4;

/// Describes why `arguments`, which `error` refuses, do not fit a schema.
pub(super) fn fault(arguments: &str, schema: &Value, error: &serde_json::Error) -> String {
    let fields = match serde_json::from_str(arguments) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return format!("they must be a JSON object{}", example(schema)),
        Err(error) if error.is_eof() => return "the JSON ends too early".to_owned(),
        Err(error) => {
            return format!(
                "they are not valid JSON (line {}, column {})",
                error.line(),
                error.column()
            );
        }
    };
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = required
        .filter(|name| fields.get(*name).is_none_or(Value::is_null))
        .map(|name| format!("`{name}` is missing"));
    let unknown =
        fields.iter().filter(|(name, value)| !properties.contains_key(*name) && !value.is_null());
    let unknown = unknown.map(|(name, _)| {
        let names: Vec<_> = properties.keys().map(|name| format!("`{name}`")).collect();
        match names.is_empty() {
            true => format!("there is no `{name}`: the call takes no arguments"),
            false => format!("there is no `{name}`; there are {}", names.join(", ")),
        }
    });
    let unfit = fields.iter().filter_map(|(name, value)| {
        let wanted = unfit(value, properties.get(name)?)?;
        Some(format!("`{name}` must be {wanted}, not {}", describe_value(value)))
    });
    let faults: Vec<String> = missing.chain(unknown).chain(unfit).take(FAULTS_MAX).collect();
    // Single values may have types with errors of their own.
    if faults.is_empty() { error.to_string() } else { faults.join("; ") }
}

/// Returns the required type of a value. None if the value fits. Nested schemas are not checked.
fn unfit(value: &Value, schema: &Value) -> Option<String> {
    if value.is_null() {
        return None;
    }
    if let Some(allowed) = schema["enum"].as_array() {
        let allowed: Vec<_> =
            allowed.iter().filter(|word| !word.is_null()).map(Value::to_string).collect();
        return (!allowed.contains(&value.to_string()))
            .then(|| format!("one of {}", allowed.join(", ")));
    }
    let wanted: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let fits = wanted.iter().any(|kind| match *kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    });
    let names = wanted.iter().filter(|kind| **kind != "null").map(|kind| type_name(kind));
    (!fits).then(|| names.collect::<Vec<_>>().join(" or "))
}

fn type_name(kind: &str) -> &'static str {
    match kind {
        "string" => "a text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        _ => "an object",
    }
}

fn describe_value(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a number with a point",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns an example with the required arguments, or an empty text if there are none.
fn example(schema: &Value) -> String {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let fields: Vec<_> = required.map(|name| format!("\"{name}\": …")).collect();
    if fields.is_empty() { String::new() } else { format!(": {{{}}}", fields.join(", ")) }
}
