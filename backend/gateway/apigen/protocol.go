package apigen

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"helix/backend/gateway"
)

const protocolIntro = "# Protocol reference\n\n" +
	"Generated from the method table of the backend by `make generate`. Do not edit.\n\n" +
	"Helix speaks JSON-RPC 2.0 over a WebSocket (`GET /ws`, subprotocol `helix.rpc.v1`), over `POST /rpc` and over the window's bridge. " +
	"Params are an object with named fields; an unknown field is an error. `params._meta` may hold `idempotencyKey` (a UUID: the call is done once, " +
	"repeats get the same answer) and `deadlineMs` (shortens the method's deadline). The notification `rpc.cancel` with `{\"ids\": [...]}` cancels running calls. " +
	"A batch has at most 100 entries.\n\n" +
	"On a WebSocket the first call is `connect`, unless the upgrade carried `Authorization: Bearer <token>`. A scope includes those below it: " +
	"admin includes write and approve, and each of these includes read. What is kept for people (approvals, secrets, trusted memories) is open to the window, the command line, a browser that came with a ticket and a token that holds approve; every other token is a program. `session.get` tells which one a session is.\n\n" +
	"Events arrive as notifications: `{\"jsonrpc\":\"2.0\",\"method\":\"<event>\",\"params\":{\"seq\":412,\"time\":\"…\",\"data\":{…}}}`. `seq` counts per user " +
	"from 1 within an `epoch`. After a reconnect, `events.resume` replays what was missed; with `gap: true` the client reloads what it shows. " +
	"Transient events (*transient* in the list) have the `seq` 0: they are not replayed and get lost when a client is slow.\n"

// Protocol returns the reference for people, as Markdown.
func Protocol(a *gateway.API, docs gateway.Docs) []byte {
	var b bytes.Buffer
	b.WriteString(protocolIntro)
	b.WriteString("\n## Errors\n\n`error.data` is `{kind, code, details?, retryable, retryAfterMs?, requestId}`. Where a field of the request is wrong, `details` has its path and a code, `{field, code}`, or `errors: [{path, code, message}]` for several; those paths are relative to `field` where there is one.\n\n| kind | code | data.code | HTTP |\n|---|---|---|---|\n")
	for _, r := range gateway.ErrorRows() {
		fmt.Fprintf(&b, "| %s | %d | `%s` | %d |\n", r.Kind, r.Code, r.Name, r.Status)
	}
	g := tsGen{a: a, docs: docs}
	b.WriteString("\n## Methods\n")
	group := ""
	for _, m := range a.Methods() {
		if head, _, dotted := strings.Cut(m.Name, "."); dotted && head != group {
			group = head
			fmt.Fprintf(&b, "\n### %s\n", group)
		} else if !dotted && group != "" && group != "-" {
			group = "-"
			b.WriteString("\n### other names\n")
		}
		fmt.Fprintf(&b, "\n#### `%s`\n\n%s\n\n", m.Name, methodComment(m, docs))
		notes := "Scope: " + scopeOf(m.Scope) + "."
		if m.Costly {
			notes += " Counts as expensive work."
		}
		if m.Deadline > 0 {
			notes += fmt.Sprintf(" Deadline: %s.", m.Deadline)
		}
		fmt.Fprintf(&b, "%s Params: %s. Result: %s.\n", notes, link(g.params(m), m.Params), link(g.ref(m.Result), m.Result))
	}
	b.WriteString("\n## Events\n\n| event | data | when |\n|---|---|---|\n")
	for _, e := range a.Events() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Name, link(g.ref(e.Type), e.Type), cell(strings.TrimSpace(map[bool]string{true: "*transient* "}[e.Transient]+docs.Type(e.Type))))
	}
	b.WriteString("\n## Types\n")
	named := a.Named()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		t := named[name]
		s := a.ShapeOf(t, docs)
		fmt.Fprintf(&b, "\n### %s\n", name)
		if d := docs.Type(t); d != "" {
			fmt.Fprintf(&b, "\n%s\n", d)
		}
		if s.Kind == "enum" {
			fmt.Fprintf(&b, "\nOne of `%s`.\n", strings.Join(s.Enum, "`, `"))
			continue
		}
		if len(s.Fields) == 0 {
			b.WriteString("\nNo fields.\n")
			continue
		}
		b.WriteString("\n| field | type | |\n|---|---|---|\n")
		for _, f := range s.Fields {
			opt := ""
			if f.Optional {
				opt = "optional. "
			}
			fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", f.Name, cell(g.fieldType(f)), cell(strings.TrimSpace(opt+f.Doc)))
		}
	}
	return b.Bytes()
}

// link formats a type as code, with a link if it has a heading.
func link(text string, t reflect.Type) string {
	if text == typeName(t) {
		return fmt.Sprintf("[`%s`](#%s)", text, strings.ToLower(text))
	}
	if text == "Record<string, never>" {
		return "none"
	}
	return "`" + text + "`"
}

// cell escapes text for a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n\n", " "), "|", "\\|")
}
