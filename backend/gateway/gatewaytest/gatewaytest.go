// Package gatewaytest is the contract suite of a method table: it calls every method over
// every pipe, with good and bad requests, with every set of scopes, and as a second user. Tests of
// the gateway run it on a small table, tests of the backend on the complete one.
package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/storage"
)

// Target is a running server to test.
type Target struct {
	API       *gateway.API
	Server    *gateway.Server // listening
	RootToken string
	Owner     identity.Identity // user A, whose token is RootToken
	Other     identity.Identity // user B

	// Skip lists methods that the suite must not execute, with the reason: those that stop the
	// program or replace what the suite itself needs. Their refusals are still tested.
	Skip map[string]string
	// Once lists methods that Answers calls over the first pipe only, with the reason.
	Once map[string]string
	// Params replace the minimal request that is generated from a method's schema.
	Params map[string]json.RawMessage
	// Prepare creates rows of user A. It returns their ids, and words that occur only in them. It
	// may be nil.
	Prepare func(t *testing.T) (ids []uuid.UUID, words []string)
	// Count returns the number of rows that a user has, by table; CountRows does that for a whole
	// database. It may be nil.
	Count func(t *testing.T, user uuid.UUID) map[string]int
	// MayGrow lists tables to which the program itself may add rows of user A meanwhile.
	MayGrow []string
}

// Run runs the whole suite; open returns a new target for each part.
func Run(t *testing.T, open func(t *testing.T) *Target) {
	parts := []struct {
		name string
		run  func(*testing.T, *Target)
	}{
		{"answers", Answers}, {"wrong types", WrongTypes}, {"unauthenticated", Unauthenticated},
		{"scopes", Scopes}, {"two users", TwoUsers}, {"other user's id", ForeignUserID},
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.run(t, open(t))
		})
	}
}

// JSON-RPC error codes that the suite checks.
const (
	codeMethod          = -32601
	codeParams          = -32602
	codeInternal        = -32603
	codeUnauthenticated = -32001
	codeDenied          = -32002
	codeLimit           = -32007
)

// Answers calls every method once over each pipe with a minimal valid request. The answer
// must have the request's id and be a result that fits the published schema, or an error
// of the domain: never an invalid request and never an internal error.
func Answers(t *testing.T, g *Target) {
	check := newChecker(t, g.API)
	for i, pipe := range pipes {
		t.Run(pipe.name, func(t *testing.T) {
			c := pipe.open(t, g, gateway.Admin)
			for _, m := range g.API.Methods() {
				if g.skips(m) || i > 0 && g.Once[m.Name] != "" {
					continue
				}
				a := c.call(t, m.Name, g.minimal(m))
				switch code := a.code(); code {
				case 0:
					if err := check.result(m, a.Result); err != nil {
						t.Errorf("%s: the result does not fit its schema: %v\n%.400s", m.Name, err, a.Result)
					}
				case codeMethod, codeParams, codeInternal, codeUnauthenticated:
					t.Errorf("%s answered %d: %s", m.Name, code, a.Error.Message)
				case codeDenied:
					// A domain may refuse, for example a raw path from the window, but not because
					// of missing scopes, since the session has them all.
					if strings.Contains(string(a.Error.Data), `"need":`) {
						t.Errorf("%s answered %d: %s", m.Name, code, a.Error.Message)
					}
					checkError(t, m.Name, a)
				default:
					checkError(t, m.Name, a)
				}
			}
		})
	}
}

// WrongTypes sends each field of each method with a value of another type, omits each required one
// and adds an unknown one. All requests must be refused as invalid params, and nothing may panic.
func WrongTypes(t *testing.T, g *Target) {
	for _, pipe := range pipes {
		t.Run(pipe.name, func(t *testing.T) {
			c := pipe.open(t, g, gateway.Admin)
			for _, m := range g.API.Methods() {
				if m.Name == "connect" {
					continue // ignores unknown fields, and may be called only once
				}
				base := g.minimal(m)
				refuse := func(what string, params map[string]any) {
					t.Helper()
					raw, err := json.Marshal(params)
					if err != nil {
						t.Fatal(err)
					}
					a := c.call(t, m.Name, raw)
					if code := a.code(); code != codeParams && code != codeLimit {
						t.Errorf("%s with %s answered %d: %.200s", m.Name, what, code, a.raw)
					}
				}
				with := func(name string, v any) map[string]any {
					p := map[string]any{}
					if err := json.Unmarshal(base, &p); err != nil {
						t.Fatal(err)
					}
					if v == absent {
						delete(p, name)
					} else {
						p[name] = v
					}
					return p
				}
				refuse("an unknown field", with("noSuchField", 1))
				for _, f := range g.API.ShapeOf(m.Params, nil).Fields {
					if _, fixed := m.Preset[f.Name]; fixed {
						refuse(f.Name+" of another meaning", with(f.Name, "something else"))
						continue
					}
					for _, v := range g.wrong(f) {
						refuse(fmt.Sprintf("%s = %v", f.Name, v), with(f.Name, v))
					}
					if !f.Optional {
						refuse("no "+f.Name, with(f.Name, absent))
					}
				}
				if a := c.call(t, m.Name, json.RawMessage(`[1]`)); a.code() != codeParams && a.code() != codeLimit {
					t.Errorf("%s with positional params answered %d", m.Name, a.code())
				}
			}
		})
	}
}

// Unauthenticated calls every method on a socket that has not connected, and over HTTP without a
// token and with a wrong one. Each call must be refused, whether the method exists or not.
func Unauthenticated(t *testing.T, g *Target) {
	var w *client
	for i, m := range append(g.API.Methods(), gateway.MethodInfo{Name: "no.such_method"}) {
		if i%20 == 0 { // a connection must connect within a few seconds
			w = rawSocket(t, g)
		}
		if m.Name == "connect" {
			continue
		}
		params := json.RawMessage(`{}`)
		if m.Params != nil {
			params = g.minimal(m)
		}
		if a := w.call(t, m.Name, params); a.code() != codeUnauthenticated {
			t.Errorf("%s before connect answered %.200s", m.Name, a.raw)
		}
		a, status := post(t, g, "", m.Name, params)
		if status != 401 || a.code() != codeUnauthenticated {
			t.Errorf("%s without a token answered %d %.200s", m.Name, status, a.raw)
		}
	}
}

// Scopes calls every method with each set of scopes. The request has an unknown field, so a method
// that is allowed stops at decoding and does nothing.
func Scopes(t *testing.T, g *Target) {
	for _, have := range []gateway.Scope{gateway.Read, gateway.Write, gateway.Approve, gateway.Admin} {
		c := openMemory(t, g, have)
		for _, m := range g.API.Methods() {
			if m.Name == "connect" {
				continue
			}
			code := c.call(t, m.Name, json.RawMessage(`{"noSuchField":1}`)).code()
			allowed := code == codeParams || code == codeLimit
			if want := have.Has(m.Scope); allowed != want || (!want && code != codeDenied) {
				t.Errorf("%s, which asks for %v, with %v answered %d", m.Name, m.Scope, have, code)
			}
		}
	}
}

// TwoUsers creates rows of user A and then, as user B with every scope, calls every method with A's
// ids in every field that takes an id. No answer may contain a word of A's rows, and the number of
// A's rows must not change.
func TwoUsers(t *testing.T, g *Target) {
	if g.Prepare == nil || g.Count == nil {
		t.Skip("the target has no rows")
	}
	ids, words := g.Prepare(t)
	before := g.Count(t, g.Owner.User)
	if len(before) == 0 {
		t.Fatal("user A has no rows: the test would prove nothing")
	}
	b := g.Other
	b.Scopes = gateway.Admin
	c := openAs(t, g, b)
	for _, m := range g.API.Methods() {
		if g.skips(m) {
			continue
		}
		for _, params := range g.withIDs(m, ids) {
			a := c.call(t, m.Name, params)
			if a.code() == codeInternal {
				t.Errorf("%s with %s is an internal error: %s", m.Name, params, a.Error.Message)
			}
			for _, w := range words {
				if strings.Contains(a.raw, w) {
					t.Errorf("%s showed user B %q of user A: %.300s", m.Name, w, a.raw)
				}
			}
		}
	}
	for table, n := range g.Count(t, g.Owner.User) {
		if n < before[table] || (n > before[table] && !slices.Contains(g.MayGrow, table)) {
			t.Errorf("%s: user A had %d rows and has %d", table, before[table], n)
		}
	}
}

// CountRows counts the rows of user in every table of db that has a user_id.
func CountRows(t *testing.T, db *storage.DB, user uuid.UUID) map[string]int {
	t.Helper()
	out := map[string]int{}
	err := db.Read(t.Context(), func(tx *storage.Tx) error {
		tables, err := storage.Collect(tx.Select(`SELECT m.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND c.name = 'user_id'`), storage.RowTo[string])
		if err != nil {
			return err
		}
		for _, name := range tables {
			var n int
			if err := tx.QueryRow(`SELECT count(*) FROM "`+name+`" WHERE user_id = ?`, user).Scan(&n); err != nil {
				return err
			}
			out[name] = n
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// called matches the names that source code calls or subscribes to.
var called = regexp.MustCompile(`\b(?:call|Call|show|rpc|subscribe|follow|Follow|on|fire|request)(?:<[^>()]*>)?\(\s*(?:[\w.]+,\s*)*["'` + "`" + `]([a-z][a-z0-9]*(?:[._][a-z0-9]+)*\.[a-z0-9_]+)["'` + "`" + `]`)

// Mentions reads the files under dirs whose names end in one of exts, and fails for each method or
// event that they name and that is missing in the table.
func Mentions(t *testing.T, a *gateway.API, exts []string, dirs ...string) {
	t.Helper()
	known := map[string]bool{}
	for _, m := range a.Methods() {
		known[m.Name] = true
	}
	for _, e := range a.Events() {
		known[e.Name] = true
	}
	seen := 0
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !slices.Contains(exts, filepath.Ext(path)) || strings.Contains(path, ".test.") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range called.FindAllStringSubmatch(string(src), -1) {
				seen++
				if !known[m[1]] {
					t.Errorf("%s names %q, which is neither a method nor an event", path, m[1])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen == 0 {
		t.Errorf("no method is named under %v: the search is broken", dirs)
	}
}

// ForeignUserID passes user B as the owner in every request of user A that has such a field, and in
// the query of POST /rpc. It must be denied or ignored.
func ForeignUserID(t *testing.T, g *Target) {
	c := openMemory(t, g, gateway.Admin)
	for _, m := range g.API.Methods() {
		if m.Name == "connect" {
			continue
		}
		p := map[string]any{}
		if err := json.Unmarshal(g.minimal(m), &p); err != nil {
			t.Fatal(err)
		}
		p["userId"] = g.Other.User.String()
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		a := c.call(t, m.Name, raw)
		if code := a.code(); code != codeDenied && code != codeParams && code != codeLimit {
			t.Errorf("%s with another userId answered %.200s", m.Name, a.raw)
		}
	}
	a, _ := postQuery(t, g, g.RootToken, "session.get", json.RawMessage(`{}`), "?user_id="+g.Other.User.String()+"&userId="+g.Other.User.String())
	if !strings.Contains(a.raw, g.Owner.User.String()) || strings.Contains(a.raw, g.Other.User.String()) {
		t.Errorf("the query changed the user: %s", a.raw)
	}
}

func (g *Target) skips(m gateway.MethodInfo) bool {
	return g.Skip[m.Name] != "" || g.Skip[m.AliasOf] != ""
}

// Context returns a context of the test that carries id.
func Context(t *testing.T, id identity.Identity) context.Context {
	return identity.With(t.Context(), id)
}
