package coretools

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"helix/backend/callable"
	"helix/backend/fault"
	"helix/backend/permission"
	"helix/backend/storage"
	"helix/backend/storage/storagetest"
	"helix/backend/testkit"
)

func TestWriteReadEditDeleteUndo(t *testing.T) {
	t.Parallel()
	e := setup(t)
	const path = "/shared/notes/today.txt"
	made := e.must("file.write", in{"path": path, "text": "one\ntwo\nthree\n"})
	if made["created"] != true || made["bytes"] != 14.0 {
		t.Errorf("written: %v", made)
	}
	read := e.must("file.read", in{"path": path})
	if read["text"] != "one\ntwo\nthree\n" || read["hash"] != made["hash"] || read["bytes"] != 14.0 || read["totalLines"] != 3.0 || read["truncated"] != false {
		t.Errorf("read: %v", read)
	}
	if part := e.must("file.read", in{"path": path, "fromLine": 2, "lines": 1}); part["text"] != "two\n" || part["toLine"] != 2.0 || part["truncated"] != true || part["hash"] != made["hash"] {
		t.Errorf("the second line: %v", part)
	}
	if part := e.must("file.read", in{"path": path, "fromByte": 9}); part["text"] != "hree\n" {
		t.Errorf("from a byte: %v", part)
	}

	e.fails(fault.Conflict, "file.edit", in{"path": path, "old": "two", "new": "2", "hash": "00"})
	if err := e.fails(fault.Invalid, "file.edit", in{"path": path, "old": "four", "new": "4", "hash": made["hash"]}); !strings.Contains(fault.As(err).Message, "isn't in") {
		t.Error(err)
	}
	e.fails(fault.Invalid, "file.edit", in{"path": path, "old": "e", "new": "E", "hash": made["hash"]}) // occurs three times
	e.fails(fault.NotFound, "file.edit", in{"path": "/shared/none", "old": "e", "new": "E", "hash": "00"})
	edited := e.must("file.edit", in{"path": path, "old": "two", "new": "2", "hash": made["hash"]})
	if edited["line"] != 2.0 || edited["hash"] == made["hash"] {
		t.Errorf("edited: %v", edited)
	}
	if again := e.must("file.write", in{"path": path, "text": "one\n2\nthree\n"}); again["changed"] != false || again["undoToken"] != nil {
		t.Errorf("the same content: %v", again)
	}
	e.fails(fault.Conflict, "file.write", in{"path": path, "text": "x", "hash": ""})
	deleted := e.must("file.delete", in{"path": path})
	e.fails(fault.NotFound, "file.read", in{"path": path})
	e.fails(fault.NotFound, "file.delete", in{"path": path})

	// Changes are undone in reverse order; in another order nothing happens.
	if _, err := e.undo(edited["undoToken"]); !fault.Is(err, fault.Conflict) {
		t.Errorf("undo of the edit of a deleted file: %v", err)
	}
	for _, step := range []struct {
		token any
		text  string
	}{{deleted["undoToken"], "one\n2\nthree\n"}, {edited["undoToken"], "one\ntwo\nthree\n"}} {
		if u, err := e.undo(step.token); err != nil || u.Path != path || !u.Restored {
			t.Fatalf("undo: %+v, %v", u, err)
		}
		if read := e.must("file.read", in{"path": path}); read["text"] != step.text {
			t.Errorf("after undo: %v", read)
		}
	}
	if u, err := e.undo(made["undoToken"]); err != nil || u.Restored {
		t.Errorf("undo of a new file: %+v, %v", u, err)
	}
	e.fails(fault.NotFound, "file.read", in{"path": path})
	if _, err := e.undo(made["undoToken"]); !fault.Is(err, fault.NotFound) {
		t.Errorf("undone twice: %v", err)
	}
}

// A token of another action remains valid.
func TestUndoTakesOnlyItsOwnTokens(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.must("file.write", in{"path": "/shared/a", "text": "x"})
	changes, err := os.ReadDir(e.in(shared, trashName))
	if err != nil || len(changes) != 1 {
		t.Fatal(changes, err)
	}
	var token string
	err = e.db.Write(e.ctx, func(tx *storage.Tx) (err error) {
		token, err = tx.KeepUndo(e.db.LocalUser().ID, "memory.delete", undoState{shared, changes[0].Name()})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.undo(token); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
	if err := e.db.Write(e.ctx, func(tx *storage.Tx) error {
		_, _, err := tx.TakeUndo(e.db.LocalUser().ID, token)
		return err
	}); err != nil {
		t.Errorf("the token of another act is gone: %v", err)
	}
}

// An attempt that is repeated with the same key has no second effect, and its token is valid.
func TestRepeatedCallsActOnce(t *testing.T) {
	t.Parallel()
	e := setup(t)
	key := func(k string) func(*callable.Request) { return func(r *callable.Request) { r.Key = k } }
	e.must("file.write", in{"path": "/tmp/a", "text": "first"})
	w := in{"path": "/tmp/a", "text": "second"}
	e.must("file.write", w, key("w"))
	hash := e.must("file.write", w, key("w"))["hash"]
	edit := in{"path": "/tmp/a", "old": "second", "new": "third", "hash": hash}
	one, two := e.must("file.edit", edit, key("e")), e.must("file.edit", edit, key("e"))
	if one["hash"] != two["hash"] {
		t.Errorf("%v, then %v", one, two)
	}
	if _, err := e.undo(two["undoToken"]); err != nil {
		t.Error(err)
	}
	if e.must("file.read", in{"path": "/tmp/a"})["text"] != "second" {
		t.Error("the edit was not undone by the token of its second attempt")
	}
	e.must("file.delete", in{"path": "/tmp/a"}, key("d"))
	if again := e.must("file.delete", in{"path": "/tmp/a"}, key("d")); again["undoToken"] == nil {
		t.Errorf("%v", again)
	}
	e.fails(fault.NotFound, "file.delete", in{"path": "/tmp/a"}, key("other"))
}

func TestDeleteFolders(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.must("file.write", in{"path": "/shared/d/e/f.txt", "text": "x"})
	e.fails(fault.Invalid, "file.delete", in{"path": "/shared/d"})
	token := e.must("file.delete", in{"path": "/shared/d", "recursive": true})["undoToken"]
	if list := e.must("file.list", in{"path": "/shared"}); list["total"] != 0.0 {
		t.Errorf("the trash shows: %v", list)
	}
	e.must("file.write", in{"path": "/shared/d", "text": "in the way"})
	if _, err := e.undo(token); !fault.Is(err, fault.Conflict) {
		t.Errorf("undo over another file: %v", err)
	}
	e.must("file.delete", in{"path": "/shared/d"})
	if _, err := e.undo(token); err != nil || e.must("file.read", in{"path": "/shared/d/e/f.txt"})["text"] != "x" {
		t.Errorf("undo: %v", err)
	}
	if err := os.Mkdir(e.in(tmp, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	e.must("file.delete", in{"path": "/tmp/empty"})
}

func TestBinaryAndLargeFiles(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.file(e.in(shared, "a.pdf"), "%PDF-1.7\n\x00\x01")
	if out := e.must("file.read", in{"path": "/shared/a.pdf"}); out["binary"] != true || out["text"] != "" || out["contentType"] != "application/pdf" || out["hash"] == nil {
		t.Errorf("%v", out)
	}
	long := "x" + strings.Repeat("ä", maxText/2+100)
	e.file(e.in(shared, "line"), long)
	out := e.must("file.read", in{"path": "/shared/line"})
	if out["truncated"] != true || len(out["text"].(string)) > maxText || strings.Contains(out["text"].(string), "\uFFFD") {
		t.Errorf("cut at %v bytes, truncated %v", len(out["text"].(string)), out["truncated"])
	}
	rest := e.must("file.read", in{"path": "/shared/line", "fromByte": out["nextByte"]})
	if rest["truncated"] != false || out["text"].(string)+rest["text"].(string) != long {
		t.Errorf("the rest has %d bytes", len(rest["text"].(string)))
	}
	e.file(e.in(shared, "latin"), "caf\xe9")
	hash := e.must("file.read", in{"path": "/shared/latin"})["hash"]
	e.fails(fault.Invalid, "file.edit", in{"path": "/shared/latin", "old": "caf", "new": "c", "hash": hash})
	if out := e.must("file.read", in{"path": "/shared/empty"}, func(*callable.Request) { e.file(e.in(shared, "empty"), "") }); out["bytes"] != 0.0 || out["text"] != "" {
		t.Errorf("an empty file: %v", out)
	}
}

func TestListFindsTheLargest(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for name, size := range map[string]int{"a.txt": 10, "d/b.txt": 300, "d/e/c.txt": 200, "d/e/d.log": 5, "z.txt": 100} {
		e.file(filepath.Join(e.home, "Docs", name), strings.Repeat("x", size))
	}
	dir := filepath.Join(e.home, "Docs")
	list := in{"path": dir, "recursive": true, "sort": "size", "limit": 3}
	if a := e.asks("file.list", list, "always"); a.Requested[0].Resource != filepath.ToSlash(dir)+"/**" {
		t.Errorf("asked for %+v", a.Requested)
	}
	var got []string
	out := e.must("file.list", list)
	for _, x := range out["entries"].([]any) {
		got = append(got, filepath.Base(x.(map[string]any)["path"].(string)))
	}
	if !slices.Equal(got, []string{"b.txt", "c.txt", "z.txt"}) || out["total"] != 7.0 || out["bytes"] != 615.0 {
		t.Errorf("%v of %v", got, out)
	}
	if out := e.must("file.list", in{"path": dir, "recursive": true, "name": "*.log"}); out["total"] != 1.0 {
		t.Errorf("by name: %v", out)
	}
	if out := e.must("file.list", in{"path": "~/Docs"}); out["total"] != 3.0 {
		t.Errorf("not recursive: %v", out)
	}
	// The grant for the folder covers its files, and no others.
	e.must("file.read", in{"path": filepath.Join(dir, "d", "b.txt")})
	e.must("file.search", in{"path": dir, "query": "x"})
	e.fails(fault.Denied, "file.read", in{"path": e.file(filepath.Join(e.home, "other.txt"), "x")})
	e.never("file.write", in{"path": filepath.Join(dir, "a.txt"), "text": "x"})
	e.never("file.delete", in{"path": filepath.Join(dir, "a.txt")})
	e.fails(fault.Invalid, "file.read", in{"path": dir})
	e.fails(fault.Invalid, "file.list", in{"path": filepath.Join(dir, "a.txt")})
	e.fails(fault.Invalid, "file.list", in{"path": dir, "name": "["})
}

// A denied folder inside an allowed one remains inaccessible.
func TestRefusedFoldersInsideAllowedOnes(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.file(filepath.Join(e.home, "Docs", "private", "diary.txt"), "needle")
	e.file(filepath.Join(e.home, "Docs", "open.txt"), "needle")
	private := in{"path": filepath.Join(e.home, "Docs", "private")}
	e.fails(fault.Denied, "file.list", private)
	e.answer("deny", "")
	one := in{"path": e.file(filepath.Join(e.home, "Docs", "one.txt"), "needle")}
	e.fails(fault.Denied, "file.read", one)
	e.answer("deny", "")
	all := in{"path": filepath.Join(e.home, "Docs"), "recursive": true}
	e.asks("file.list", all, "always")
	out := e.must("file.list", all)
	if out["total"] != 3.0 || out["skipped"] != 1.0 {
		t.Errorf("%v", out)
	}
	found := e.must("file.search", in{"path": filepath.Join(e.home, "Docs"), "query": "needle"})
	if len(found["hits"].([]any)) != 1 {
		t.Errorf("%v", found)
	}
	e.fails(fault.Denied, "file.read", in{"path": filepath.Join(e.home, "Docs", "private", "diary.txt")})
}

// A call gets no more than its caller holds; the user's workspace needs no permission.
func TestCallerNarrows(t *testing.T) {
	t.Parallel()
	e := setup(t)
	path := e.file(filepath.Join(e.home, "a.txt"), "x")
	e.asks("file.read", in{"path": path}, "always")
	poor, err := e.perm.Begin(e.ctx, nil, callable.BuiltinSubject("file.read"), storage.NewID()) // holds only this file
	if err != nil {
		t.Fatal(err)
	}
	as := func(r *callable.Request) { r.Caller.Authority = poor }
	e.must("file.read", in{"path": path}, as)
	e.must("file.write", in{"path": "/shared/a.txt", "text": "x"}, as)
	e.must("file.read", in{"path": "/shared/a.txt"}, as)
	other := e.file(filepath.Join(e.home, "b.txt"), "x")
	e.asks("file.read", in{"path": other}, "always")
	if r, _ := callable.RefusalOf(e.fails(fault.Denied, "file.read", in{"path": other}, as)); r.Reason != callable.ReasonCallerLacks {
		t.Errorf("%+v", r)
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	e := setup(t)
	path := e.file(filepath.Join(e.home, "a.txt"), "x")
	state := func(name string, v in) (out permission.PreviewResult) {
		t.Helper()
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if out, err = e.set.Rights(e.ctx, callable.Info{Ref: callable.Ref{Kind: callable.Builtin, ID: name}}, raw); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if p := state("file.read", in{"path": path}); len(p.Union) != 1 || p.Union[0].State != "missing" || p.Unattended != "will_stop" || p.Union[0].Resource != filepath.ToSlash(path) {
		t.Errorf("%+v", p)
	}
	e.asks("file.read", in{"path": path}, "always")
	if p := state("file.read", in{"path": path}); p.Union[0].State != "granted" || p.Unattended != "ok" || len(p.WillAsk) != 0 {
		t.Errorf("%+v", p)
	}
	if p := state("file.list", in{"path": e.home}); p.Union[0].State != "missing" || p.Union[0].Resource != filepath.ToSlash(e.home)+"/**" {
		t.Errorf("%+v", p)
	}
	for name, v := range map[string]in{"file.read": {"path": "/shared/x"}, "file.write": {"path": "/tmp/x"}, "file.list": {"path": "/shared"}} {
		if p := state(name, v); len(p.Union) != 0 || p.Unattended != "ok" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := state("file.write", in{"path": "/tmp/x"}); p.Tier != "side_effecting" {
		t.Errorf("%+v", p)
	}
	if p := state("file.read", in{}); len(p.Union) != 1 || p.Union[0].State != "missing" {
		t.Errorf("%+v", p)
	}
	if p := state("vault.copyto", in{"operationId": storage.NewID().String()}); len(p.Union) != 2 || p.Unattended != "will_stop" {
		t.Errorf("%+v", p)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.file(e.in(shared, "a.md"), "# Kettle\nThe kettle is blue.\r\n")
	e.file(e.in(shared, "d", "b.txt"), "a.b\naxb\nkettle "+strings.Repeat("x", 2*maxShown))
	e.file(e.in(shared, "c.bin"), "kettle\x00")
	e.file(e.in(shared, "long"), strings.Repeat("x", 3000)+" needle "+strings.Repeat("y", 3000))
	hits := func(v in) (out []string) {
		t.Helper()
		for _, h := range e.must("file.search", v)["hits"].([]any) {
			m := h.(map[string]any)
			out = append(out, m["path"].(string)+":"+strings.TrimRight(m["text"].(string), "x"))
		}
		slices.Sort(out)
		return out
	}
	for name, c := range map[string]struct {
		v    in
		want []string
	}{
		"literal":     {in{"query": "kettle"}, []string{"/shared/a.md:The kettle is blue.", "/shared/d/b.txt:kettle "}},
		"no pattern":  {in{"query": "a.b"}, []string{"/shared/d/b.txt:a.b"}},
		"pattern":     {in{"query": "^# K.*e$", "regexp": true}, []string{"/shared/a.md:# Kettle"}},
		"ignore case": {in{"query": "KETTLE", "ignoreCase": true, "name": "*.md"}, []string{"/shared/a.md:# Kettle", "/shared/a.md:The kettle is blue."}},
		"limit":       {in{"query": "e", "limit": 1, "name": "*.md"}, []string{"/shared/a.md:# Kettle"}},
		"nothing":     {in{"query": "teapot"}, nil},
	} {
		if got := hits(c.v); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := e.must("file.search", in{"query": "needle"})["hits"].([]any); len(got) != 1 || !strings.Contains(got[0].(map[string]any)["text"].(string), "needle") {
		t.Errorf("in a long line: %v", got)
	}
	if out := e.must("file.search", in{"query": "kettle"}); out["files"] != 3.0 || out["skipped"] != 1.0 {
		t.Errorf("%v", out)
	}
	e.fails(fault.Invalid, "file.search", in{"query": "(", "regexp": true})
	e.must("file.search", in{"query": strings.Repeat("(a|b|ab)*", 100) + "c", "regexp": true})
}

// pathCorpus returns paths that no tool may follow, each with the possible kinds of refusal.
func pathCorpus(e *env) []string {
	own := e.in()
	return []string{
		"/shared/../vault/secret.txt", "/shared/d/../../vault/secret.txt", "../vault/secret.txt", "/tmp/..", "/shared/./../vault", "/shared/..\x00", "..",
		"/shared/" + trashName + "/x", "/shared/" + strings.ToUpper(trashName) + "/x", "/shared//./" + trashName,
		filepath.Join(own, "vault", "secret.txt"), filepath.Join(own, "holds"), filepath.Join(e.data, "helix.db"), filepath.Join(e.data, "config.toml"), e.data,
		"/proc/self/environ", "/proc/1/root/etc/passwd", "/proc", "/sys/kernel", "/dev/zero", "/dev/stdin", "/dev/fd/0",
		"", "shared/a.txt", "a.txt", "$STATE/a", "$HOME/a", "file:///etc/passwd", `\\server\share`, "/shared/a\nb", "/shared/a\u202eb", "/shared/\xff", "/shared/" + strings.Repeat("a", maxPath),
	}
}

// agentRequest is a call of an agent without a tool of this package.
var agentRequest = callable.Request{Caller: callable.Caller{Kind: "agent"}}

func TestPathCorpus(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	if runtime.GOOS == "windows" {
		t.Skip("the corpus is of POSIX paths")
	}
	e := setup(t)
	e.file(e.in(vault, "secret.txt"), "secret")
	refused := func(name, path string, out any, err error) {
		t.Helper()
		r, _ := callable.RefusalOf(err)
		if !fault.Is(err, fault.Denied) && !fault.Is(err, fault.Invalid) || r.Reason == callable.ReasonNeedsApproval {
			t.Errorf("%s %q: %v, %v %+v", name, path, out, err, r)
		}
	}
	for _, path := range pathCorpus(e) {
		for name, v := range map[string]in{
			"file.read": {"path": path}, "file.list": {"path": path}, "file.search": {"path": path, "query": "e"},
			"file.write": {"path": path, "text": "x"}, "file.edit": {"path": path, "old": "a", "new": "b", "hash": "0"}, "file.delete": {"path": path, "recursive": true},
		} {
			out, err := e.call(name, v)
			refused(name, path, out, err)
		}
		out, err := e.call("vault.copyto", in{"from": path, "to": "/shared/copy.txt"})
		refused("vault.copyto from", path, out, err)
		out, err = e.call("vault.copyto", in{"from": "/vault/secret.txt", "to": path})
		refused("vault.copyto to", path, out, err)
		data, err := e.s.Load(e.ctx, agentRequest, path, 1000) // send_media
		refused("load", path, data, err)
		saved, err := e.s.Save(e.ctx, agentRequest, path, []byte("x")) // attachment_save
		refused("save", path, saved, err)
	}
	if open, err := e.perm.ListApprovals(e.ctx, permission.ListApprovalsParams{}); err != nil || len(open.Approvals) != 0 {
		t.Errorf("somebody is asked: %+v, %v", open, err)
	}
	// The names of areas are case-sensitive.
	for _, path := range []string{"/SHARED/a.txt", "/Vault/secret.txt"} {
		if out, err := e.call("file.write", in{"path": path, "text": "x"}); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v, %v", path, out, err)
		}
	}
	for _, path := range []string{"/shared", "/tmp/", "/vault", "/vault/a.txt"} {
		e.never("file.write", in{"path": path, "text": "x"})
		e.never("file.delete", in{"path": path, "recursive": true})
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	e := setup(t)
	secret := e.file(e.in(vault, "secret.txt"), "secret")
	outside := e.file(filepath.Join(e.home, "outside.txt"), "outside")
	for name, target := range map[string]string{"up": "../vault", "abs": e.in(vault), "home": e.home, "file": secret, "out": outside, "in": "real", "broken": "nowhere"} {
		if err := os.Symlink(target, e.in(shared, name)); err != nil {
			t.Skip("no symbolic links here")
		}
	}
	for _, path := range []string{"/shared/up/secret.txt", "/shared/abs/secret.txt", "/shared/home/outside.txt", "/shared/file", "/shared/out", "/shared/up/new.txt", "/shared/abs/new.txt", "/shared/broken"} {
		for name, v := range map[string]in{
			"file.read": {"path": path}, "file.list": {"path": path}, "file.search": {"path": path, "query": "e"}, "file.write": {"path": path, "text": "x"}, "file.edit": {"path": path, "old": "s", "new": "b", "hash": "0"},
		} {
			if out, err := e.call(name, v); !fault.Is(err, fault.Denied) {
				t.Errorf("%s %s: %v, %v", name, path, out, err)
			}
		}
		if data, err := e.s.Load(e.ctx, agentRequest, path, 1000); !fault.Is(err, fault.Denied) {
			t.Errorf("load %s: %q, %v", path, data, err)
		}
		if out, err := e.s.Save(e.ctx, agentRequest, path, []byte("x")); !fault.Is(err, fault.Denied) {
			t.Errorf("save %s: %v, %v", path, out, err)
		}
	}
	for _, path := range []string{"/shared/up/secret.txt", "/shared/abs/secret.txt", "/shared/home/outside.txt"} {
		e.fails(fault.Denied, "file.delete", in{"path": path})
	}
	e.must("file.delete", in{"path": "/shared/file"}) // only the link
	found := e.must("file.search", in{"path": "/shared", "query": "secret"})
	if len(found["hits"].([]any)) != 0 {
		t.Errorf("found through a link: %v", found)
	}
	if list := e.must("file.list", in{"path": "/shared", "recursive": true}); list["total"] != 6.0 {
		t.Errorf("listed through a link: %v", list)
	}
	for path, text := range map[string]string{secret: "secret", outside: "outside"} {
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%s holds %q, %v", path, b, err)
		}
	}
	// An area that was replaced by a link is rejected.
	area, target := e.in(tmp), e.in(vault)
	if err := errors.Join(os.RemoveAll(area), os.Symlink(target, area)); err != nil {
		t.Fatal(err)
	}
	e.fails(fault.Denied, "file.read", in{"path": "/tmp/secret.txt"})
	e.never("file.write", in{"path": "/tmp/secret.txt", "text": "x"})
	e.never("file.delete", in{"path": "/tmp/secret.txt"})
}

// A folder that is replaced by a link during calls does not lead anywhere else.
func TestFolderExchangedForALink(t *testing.T) {
	t.Parallel()
	testkit.SkipRaced(t, "one goroutine, and slow under it")
	if runtime.GOOS == "windows" {
		t.Skip("open folders cannot be renamed here")
	}
	e := setup(t)
	e.file(e.in(vault, "a.txt"), "secret")
	e.file(e.in(vault, "only-here.txt"), "x")
	sum := sha256.Sum256([]byte("secret"))
	secretHash := hex.EncodeToString(sum[:])
	e.file(e.in(shared, "d", "a.txt"), "text")
	d, target := e.in(shared, "d"), e.in(vault)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			// The calls may recreate the folder, so each of these may fail.
			_ = os.RemoveAll(d)
			_ = os.Symlink(target, d)
			_ = os.RemoveAll(d)
			_ = os.Mkdir(d, 0o700)
			_ = os.WriteFile(filepath.Join(d, "a.txt"), []byte("text"), 0o600)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	read := 0
	for range 300 {
		if out, err := e.call("file.read", in{"path": "/shared/d/a.txt"}); err == nil {
			if read++; strings.Contains(out["text"].(string), "secret") {
				t.Error("the vault was read through a link")
			}
		}
		if out, err := e.call("file.search", in{"path": "/shared/d", "query": "secret"}); err == nil && len(out["hits"].([]any)) > 0 {
			t.Error("the vault was searched through a link")
		}
		if data, err := e.s.Load(e.ctx, agentRequest, "/shared/d/a.txt", 1000); err == nil && strings.Contains(string(data), "secret") {
			t.Error("the vault was loaded through a link")
		}
		if out, err := e.call("file.list", in{"path": "/shared/d"}); err == nil && strings.Contains(fmt.Sprint(out), "only-here") {
			t.Error("the vault was listed through a link")
		}
		_, _ = e.call("file.write", in{"path": "/shared/d/new.txt", "text": "x"})
		_, _ = e.call("file.edit", in{"path": "/shared/d/a.txt", "old": "secret", "new": "x", "hash": secretHash})
		_, _ = e.s.Save(e.ctx, agentRequest, "/shared/d/saved.txt", []byte("x"))
		_, _ = e.call("file.delete", in{"path": "/shared/d/new.txt"})
		_, _ = e.call("file.delete", in{"path": "/shared/d/a.txt"})
	}
	close(stop)
	wg.Wait()
	t.Logf("%d of 300 reads succeeded", read)
	list, err := os.ReadDir(e.in(vault))
	if err != nil || len(list) != 2 || list[0].Name() != "a.txt" {
		t.Errorf("the vault holds %v, %v", list, err)
	}
	if b, err := os.ReadFile(e.in(vault, "a.txt")); err != nil || string(b) != "secret" {
		t.Errorf("the vault's file holds %q, %v", b, err)
	}
}

// The files that define Helix's identity and permissions are outside of the places that tools write
// to, and no path leads there.
func TestProtectedFiles(t *testing.T) {
	t.Parallel()
	e := setup(t)
	var paths []string
	for _, name := range []string{"SYSTEM.md", "SOUL.md", "soul/HELIX_SOUL.md", "skills/greet/SKILL.md", "agents/a/agent.toml", ".agents/skills/x/SKILL.md", ".helix/skills/x/SKILL.md"} {
		paths = append(paths, e.file(filepath.Join(e.home, "Helix", name), "kept"))
	}
	for _, name := range []string{"helix.db", "config.toml", "workspaces/other/shared/a.txt"} {
		paths = append(paths, e.file(filepath.Join(e.data, name), "kept"))
	}
	spellings := func(p string) []string {
		rel, err := filepath.Rel(e.in(shared), p)
		if err != nil {
			t.Fatal(err)
		}
		return []string{p, strings.ToUpper(p), "/shared" + p, "/shared/" + filepath.ToSlash(rel), "/tmp/" + filepath.ToSlash(rel), "~" + strings.TrimPrefix(p, e.home)}
	}
	e.must("file.write", in{"path": "/shared/x", "text": "x"})
	for _, p := range paths {
		if err := os.Link(p, e.in(shared, "hard")); err == nil { // a file with a second link is replaced, not written through
			e.must("file.write", in{"path": "/shared/hard", "text": "bad"})
			e.must("file.delete", in{"path": "/shared/hard"})
		}
		for _, text := range spellings(p) {
			for name, v := range map[string]in{
				"file.write": {"path": text, "text": "bad"}, "file.edit": {"path": text, "old": "kept", "new": "bad", "hash": "0"}, "file.delete": {"path": text},
				"vault.copyto": {"from": "/vault/x", "to": text},
			} {
				if out, err := e.call(name, v); err == nil && !strings.HasPrefix(text, "/shared"+p) {
					t.Errorf("%s %s: %v", name, text, out)
				}
			}
		}
		if b, err := os.ReadFile(p); err != nil || string(b) != "kept" {
			t.Errorf("%s holds %q, %v", p, b, err)
		}
	}
}

func TestUsersDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	e := setup(t)
	token := e.must("file.write", in{"path": "/shared/mine.txt", "text": "mine"})["undoToken"]
	mine := e.in(shared, "mine.txt")
	e.file(e.in(vault, "v.txt"), "mine")
	e.asks("file.read", in{"path": "/vault/v.txt"}, "always")
	held := e.must("vault.copyto", in{"from": "/vault/v.txt", "to": "/shared/v.txt"})
	first := e.ctx
	e.ctx = storagetest.OtherUser(t, e.db)
	if list := e.must("file.list", in{"path": "/shared"}); list["total"] != 0.0 {
		t.Errorf("the other user sees %v", list)
	}
	e.fails(fault.NotFound, "file.read", in{"path": "/shared/mine.txt"})
	e.never("file.read", in{"path": mine})
	e.fails(fault.Denied, "file.read", in{"path": "/vault/v.txt"})
	e.fails(fault.NotFound, "vault.copyto", in{"operationId": held["operationId"]})
	if _, err := e.undo(token); !fault.Is(err, fault.NotFound) {
		t.Errorf("undo of another user's change: %v", err)
	}
	if st, err := e.s.Status(e.ctx, struct{}{}); err != nil || st.Areas[0].Files != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if info, err := e.s.vaultInfo(e.ctx, vaultID(e.db.LocalUser().ID)); !fault.Is(err, fault.NotFound) {
		t.Errorf("another user's vault is %+v, %v", info, err)
	}
	e.ctx = first
	st, err := e.s.Status(e.ctx, struct{}{})
	if err != nil || len(st.Areas) != 3 || st.Areas[0] != (Area{"shared", filepath.Join(st.Root, "shared"), 4, 1}) || st.Areas[2].Files != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	e.ctx = t.Context()
	e.fails(fault.Denied, "file.list", in{"path": "/shared"})
}

func TestVaultNeedsTwoDecisions(t *testing.T) {
	t.Parallel()
	e := setup(t)
	e.file(e.in(vault, "d", "key.txt"), "secret")
	e.fails(fault.Denied, "vault.copyto", in{"from": "/shared/a", "to": "/shared/b"})
	e.fails(fault.Denied, "vault.copyto", in{"from": "/vault/d/key.txt", "to": "/vault/b"})
	e.fails(fault.Invalid, "vault.copyto", in{"from": "/vault/d/key.txt"})
	e.fails(fault.NotFound, "vault.copyto", in{"operationId": storage.NewID().String()})
	first := in{"from": "/vault/d/key.txt", "to": "/shared/key.txt"}
	if a := e.asks("vault.copyto", first, "once"); a.Tier != "privileged" || a.Subject.Name != "vault" {
		t.Errorf("the first question is %+v", a)
	}
	held := e.must("vault.copyto", first)
	if held["state"] != "held" || held["bytes"] != 6.0 {
		t.Errorf("%v", held)
	}
	e.fails(fault.NotFound, "file.read", in{"path": "/shared/key.txt"})
	second := in{"operationId": held["operationId"]}
	if a := e.asks("vault.copyto", second, "once"); !strings.Contains(a.Subject.Name, "/vault/d/key.txt") || a.Tier != "privileged" {
		t.Errorf("the question is %+v", a)
	}
	key := func(r *callable.Request) { r.Key = "second" }
	done := e.must("vault.copyto", second, key)
	if done["state"] != "copied" || e.must("file.read", in{"path": "/shared/key.txt"})["text"] != "secret" {
		t.Errorf("%v", done)
	}
	if _, err := e.undo(done["undoToken"]); err != nil {
		t.Error(err)
	}
	e.fails(fault.NotFound, "file.read", in{"path": "/shared/key.txt"})
	// The permission was for one copy, and the operation has ended.
	e.asks("vault.copyto", second, "once")
	e.fails(fault.Conflict, "vault.copyto", second)
	e.asks("vault.copyto", first, "once")
	// The permission to read with file.read does not permit copying out of the vault.
	if next := e.must("vault.copyto", first); next["operationId"] == held["operationId"] {
		t.Errorf("%v", next)
	}
}

func TestOldFilesAreRemoved(t *testing.T) {
	t.Parallel()
	e := setup(t)
	start := time.Now()
	e.must("file.write", in{"path": "/shared/a", "text": "1"})
	e.must("file.write", in{"path": "/shared/a", "text": "2"})
	e.must("file.write", in{"path": "/tmp/b", "text": "1"})
	e.must("file.delete", in{"path": "/shared/a"})
	kept := func(area string) int {
		t.Helper()
		list, err := os.ReadDir(e.in(area, trashName))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return len(list)
	}
	if kept(shared) != 3 || kept(tmp) != 1 {
		t.Errorf("%d and %d", kept(shared), kept(tmp))
	}
	for _, c := range []struct {
		after           time.Duration
		shared, tmp, in int
	}{{2 * day, 1, 0, 2}, {8 * day, 1, 0, 1}, {29 * day, 1, 0, 1}, {31 * day, 0, 0, 1}} {
		e.now = start.Add(c.after)
		if a, b := kept(shared), kept(tmp); a != c.shared || b != c.tmp {
			t.Errorf("after %s: %d and %d are kept", c.after, a, b)
		}
		if list, err := os.ReadDir(e.in(tmp)); err != nil || len(list) != c.in {
			t.Errorf("after %s /tmp holds %v, %v", c.after, list, err)
		}
	}
}

func FuzzParsePath(f *testing.F) {
	for _, p := range []string{"/shared/a", "/tmp", "/vault/../x", "~/a", "/a/b", "", "..", "/shared//./b", "/shared/.helix-trash", `C:\x`, "/shared/a\\b"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePath(text)
		if err != nil {
			return
		}
		again, err := parsePath(p.text)
		if err != nil || again != p {
			t.Fatalf("%q is %+v, and that is %+v, %v", text, p, again, err)
		}
		if p.area == "" {
			return
		}
		if !filepath.IsLocal(filepath.FromSlash(p.rel)) || !slices.Contains(areas, p.area) || strings.Contains(p.text, "..") && slices.Contains(strings.Split(p.text, "/"), "..") {
			t.Fatalf("%q leads to %+v", text, p)
		}
		if top, _, _ := strings.Cut(p.rel, "/"); strings.EqualFold(top, trashName) {
			t.Fatalf("%q leads into the trash", text)
		}
	})
}
