//! Shortens schemas of arguments, because each prompt contains all of them. Pure.

use serde_json::Value;

/// Removes the parts of a schema that a model does not need in each prompt: the ban on further fields, which an error
/// reports if the model invents some; empty and numeric defaults of optional fields; and the bounds of numbers, which
/// are clamped.
pub(super) fn shorten(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        let is_empty = |value: &Value| {
            let is_none = value.is_null() || value == false || value == "";
            is_none || value.as_array().is_some_and(Vec::is_empty)
        };
        object.retain(|key, value| match key.as_str() {
            "additionalProperties" => false,
            "default" => !is_empty(value) && !value.is_number(),
            "minimum" | "maximum" => !value.is_number(),
            _ => true,
        });
        object.values_mut().for_each(shorten);
    }
}
