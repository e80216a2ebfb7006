//! The reference file-system server, used through our client.

use std::sync::Arc;

use actors::mcp::{McpClient, McpSettings};
use actors::tool::Catalog;
use serde_json::json;
use sync::CancellationToken;

use crate::mcp::starts;
use testkit::peers::peer;

#[tokio::test]
async fn the_reference_server_reads_and_writes_and_says_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::write(root.join("note.txt"), "eins\nzwei\n").unwrap();
    let script = peer("mcp-filesystem", "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    let command = ["node", script.to_str().unwrap(), root.to_str().unwrap()];
    let settings: McpSettings =
        toml::from_str(&format!("command = {command:?}\nread_only = ['read_text_file']")).unwrap();
    let scope = CancellationToken::new().observe();
    let program = settings.program(&|_| None);
    let server = McpClient::start("files", &settings, &program, &starts(&root), &scope).await.unwrap();
    assert_eq!(server.problems(), Vec::<String>::new());
    let mut catalog = Catalog::builtin();
    for (spec, does) in server.tools() {
        catalog.add(spec.clone(), Arc::clone(does)).unwrap();
    }
    let call = async |name: &str, arguments: serde_json::Value| {
        let tool = catalog.find(name).unwrap();
        tool.check_input(&arguments).map_err(|error| error.to_string())?;
        let does = server.tools().iter().find(|(spec, _)| spec.name == name).unwrap().1.clone();
        let result = does.call(arguments).await?;
        tool.check_output(&result).map_err(|error| error.to_string())?;
        Ok::<_, String>(result)
    };

    let note = root.join("note.txt");
    let read = call("files.read_text_file", json!({ "path": note })).await.unwrap();
    assert!(read.to_string().contains("eins\\nzwei\\n"), "{read}");
    let made = root.join("made.txt");
    call("files.write_file", json!({ "path": made, "content": "drei" })).await.unwrap();
    assert_eq!(std::fs::read_to_string(&made).unwrap(), "drei");
    let outside = call("files.read_text_file", json!({ "path": "/etc/hostname" })).await.unwrap_err();
    assert!(outside.contains("Access denied"), "{outside}");
    let wrong = call("files.read_text_file", json!({})).await.unwrap_err();
    assert_eq!(wrong, "the arguments of files.read_text_file are not valid: `path` is missing");
    assert!(!catalog.find("files.read_text_file").unwrap().spec.writes);
    assert!(catalog.find("files.write_file").unwrap().spec.writes);
    server.end().await;
}
