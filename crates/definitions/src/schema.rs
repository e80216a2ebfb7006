//! The JSON Schemas of definitions, for editors: completion, and marks where something is wrong.
//!
//! # Invariants
//! They have exactly the keys of [`keys`]: an editor marks every key that the reader refuses.

use serde_json::{Map, Value, json};

use crate::keys::{self, KeyDoc, KeyType};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of an action's file.
pub fn action_schema() -> Value {
    let mut schema = object(keys::ACTION);
    schema["$schema"] = json!(DRAFT);
    schema["title"] = json!("An action of agents");
    schema["required"] = json!(["description"]);
    schema["$defs"] = defs();
    schema
}

/// The schema of an actor's file.
pub fn actor_schema() -> Value {
    json!({
        "$schema": DRAFT,
        "title": "An actor of agents",
        "$ref": "#/$defs/actor",
        "$defs": defs(),
    })
}

fn defs() -> Value {
    json!({ "actor": actor(), "node": node(&[]) })
}

/// An actor has nodes, or is one.
fn actor() -> Value {
    let mut with_nodes = object(keys::ACTOR);
    with_nodes["required"] = json!(["nodes"]);
    let top: Vec<KeyDoc> = keys::ACTOR.iter().filter(|key| key.name != "nodes").copied().collect();
    let mut kinds = vec![with_nodes];
    kinds.extend(node_kinds(&top));
    json!({ "oneOf": kinds })
}

fn node(more: &[KeyDoc]) -> Value {
    json!({ "oneOf": node_kinds(more) })
}

/// A schema for each thing that a node can do.
fn node_kinds(more: &[KeyDoc]) -> Vec<Value> {
    let kinds: [(&str, &[&[KeyDoc]]); 5] = [
        ("model", &[keys::MODEL, keys::NODE]),
        ("tool", &[keys::TOOL, keys::NODE]),
        ("run", &[keys::RUN, keys::PROGRAM, keys::NODE]),
        ("external", &[keys::EXTERNAL, keys::PROGRAM, keys::NODE]),
        ("actor", &[keys::NESTED, keys::NODE]),
    ];
    let schema = |(kind, tables): (&str, &[&[KeyDoc]])| {
        let own: Vec<KeyDoc> = tables.iter().flat_map(|table| table.iter()).chain(more).copied().collect();
        let mut schema = object(&own);
        schema["required"] = json!([kind]);
        schema
    };
    kinds.into_iter().map(schema).collect()
}

/// A map with these keys and no others.
fn object(keys: &[KeyDoc]) -> Value {
    let properties: Map<String, Value> =
        keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn property(key: &KeyDoc) -> Value {
    let mut schema = value_schema(key.takes);
    schema["description"] = json!(key.doc);
    schema
}

fn value_schema(takes: KeyType) -> Value {
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    match takes {
        KeyType::Text => json!({ "type": "string" }),
        KeyType::Condition => json!({ "type": ["string", "boolean"] }),
        KeyType::Boolean => json!({ "type": "boolean" }),
        KeyType::Number => json!({ "type": "number" }),
        KeyType::Count { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        KeyType::Span => json!({ "type": "string", "pattern": "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$" }),
        KeyType::Texts => texts(),
        KeyType::Counts { min, max } => {
            json!({ "type": "array", "items": { "type": "integer", "minimum": min, "maximum": max } })
        }
        KeyType::TextOrTexts => json!({ "oneOf": [{ "type": "string" }, texts()] }),
        KeyType::OneOf(words) => json!({ "enum": words }),
        KeyType::Anything => json!({}),
        KeyType::TextMap => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        KeyType::Map => json!({ "type": "object" }),
        KeyType::Keys(keys) => object(keys),
        KeyType::MapOf(keys) => {
            json!({ "type": "object", "additionalProperties": { "oneOf": [object(keys), { "type": "null" }] } })
        }
        KeyType::ListOf(keys) => {
            json!({ "type": "array", "items": { "oneOf": [{ "type": "string" }, object(keys)] } })
        }
        KeyType::Actor => json!({ "oneOf": [{ "type": "string" }, { "$ref": "#/$defs/actor" }] }),
        KeyType::Nodes => {
            json!({ "type": "object", "minProperties": 1, "additionalProperties": { "$ref": "#/$defs/node" } })
        }
    }
}
