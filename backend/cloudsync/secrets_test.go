package cloudsync

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// Every sensitive column of every table contains a marker word, and a dump of the hub does not.
func TestDumpOfHubHoldsNoWordOfSensitiveColumns(t *testing.T) {
	t.Parallel()
	const word = "xylophone"
	a, b, dsn := pair(t)
	a.fill(1, rand.New(rand.NewPCG(5, 5)))
	var marked, refused []string
	for _, s := range a.tables {
		for _, c := range s.columns {
			if !c.Sensitive {
				continue
			}
			name := s.Table + "." + c.Name
			for _, text := range []string{word, `{"w":"` + word + `"}`, `["` + word + `"]`} {
				err := a.db.Write(a.ctx, func(tx *storage.Tx) error {
					ids, err := storage.Collect(tx.Select(`SELECT id FROM `+s.Table), storage.RowTo[uuid.UUID])
					for _, id := range ids {
						v, e := tx.SealedValue(s.Table, c, id, text, false)
						if e != nil {
							return e
						}
						if _, e := tx.Exec(`UPDATE `+s.Table+` SET `+c.Name+` = ? WHERE id = ?`, v, id); e != nil {
							return e
						}
					}
					return err
				})
				if err == nil {
					marked = append(marked, name)
					break
				}
			}
			if !slices.Contains(marked, name) {
				refused = append(refused, name)
			}
		}
	}
	// Versions of a skill are immutable, so it is inserted with the word.
	a.exec(`INSERT INTO composite_skill_versions SELECT ?, composite_skill_id, user_id, 'marked', '{"w":"`+word+`"}', definition_hash, note, origin, created_at, updated_at, NULL, NULL FROM composite_skill_versions LIMIT 1`, storage.NewID())
	if !slices.Equal(refused, []string{"composite_skill_versions.body"}) || len(marked) < 20 {
		t.Errorf("marked %v, not %v", marked, refused)
	}
	id := a.remember(word + " in the attic")
	settleAll(a, b)
	a.edit(id, word+" one")
	b.edit(id, word+" two") // the conflict contains both texts
	settleAll(a, b)
	same(t, a, b)
	a.noDeadLetters()
	programs := must[[]string](t)(filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump"))
	if len(programs) == 0 {
		t.Fatal("no pg_dump")
	}
	dump, err := exec.Command(programs[len(programs)-1], "--inserts", dsn).Output() //nolint:gosec // a program of the test's server
	if err != nil {
		t.Fatal(err)
	}
	if len(dump) < 100_000 || !bytes.Contains(dump, []byte(id.String())) {
		t.Fatalf("a dump of %d bytes", len(dump))
	}
	for line := range bytes.Lines(dump) {
		if bytes.Contains(line, []byte(word)) {
			t.Errorf("%.300s", line)
		}
	}
	if !strings.Contains(b.text(id), word) {
		t.Error("b cannot read it")
	}
}

// notes collects log records.
type notes struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(p)
}

// No log record or message contains a connection string, a password, a key or a code.
func TestLogsAndErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	dsn := newHub(t)
	out := &notes{}
	say := func(err error) {
		for ; err != nil; err = errors.Unwrap(err) {
			fmt.Fprintln(out, err)
			var f *fault.Error
			if errors.As(err, &f) {
				text, _ := json.Marshal(f)
				fmt.Fprintln(out, f.Message, string(text))
			}
		}
	}
	logged := func() *device {
		d := newDevice(t)
		d.o.Logger = slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		return d
	}
	a, b := logged(), logged()
	admin := strings.Replace(dsn, "postgres://postgres@", "postgres://postgres:hunter2hunter2@", 1)
	u := must[*url.URL](t)(url.Parse(admin))
	u.Host = "127.0.0.1:1"
	for _, wrong := range []string{u.String(), admin + "x&nonsense", "postgres://postgres:hunter2hunter2@[broken", "host=127.0.0.1 password=hunter2hunter2 port=x"} {
		_, err := a.Setup(a.ctx, SetupParams{AdminDSN: wrong})
		if err == nil {
			t.Errorf("%s: accepted", wrong)
		}
		say(err)
	}
	r, err := a.Setup(a.ctx, SetupParams{AdminDSN: admin})
	if err != nil {
		t.Fatal(err)
	}
	a.now()
	link := must[InviteResult](t)(a.Invite(a.ctx, InviteParams{})).Link
	inv := must[invitation](t)(readLink(link))
	must[SetupResult](t)(b.Enroll(b.ctx, EnrollParams{Code: link}))
	b.identify()
	_, err = logged().Enroll(b.ctx, EnrollParams{Code: link})
	say(err)
	must[RotateKeyResult](t)(a.RotateKey(a.ctx, struct{}{}))
	settleAll(a, b)
	var secrets []string
	for _, d := range []*device{a, b} {
		for _, name := range []string{passwordSecret, keySecret, boxSecret} {
			secrets = append(secrets, string(must[[]byte](t)(d.secrets.Value(d.asUser(d.ctx), name))))
		}
		// Use a wrong password.
		d.write(func(tx *storage.Tx) error { return d.secrets.SetTx(tx, passwordSecret, []byte("wrongwrongwrong")) })
		if err := d.hangUp(); err != nil {
			t.Fatal(err)
		}
		_, err := d.Coordinate(d.ctx, CoordinateParams{})
		if !fault.Is(err, fault.Denied) {
			t.Errorf("%v", err)
		}
		say(err)
		ctx, cancel := context.WithCancel(d.ctx)
		cancel()
		_, err = d.Coordinate(ctx, CoordinateParams{})
		say(err)
	}
	ring := must[keyRing](t)(readRing([]byte(secrets[1]), 1))
	for _, key := range ring {
		text, _ := json.Marshal(key)
		secrets = append(secrets, strings.Trim(string(text), `"`))
	}
	secrets = append(secrets, "hunter2", "wrongwrong", link[len(linkPrefix):], inv.Password, r.RecoveryCode, dsn, admin)
	text := out.b.String()
	if len(text) < 200 {
		t.Fatalf("hardly anything was said: %s", text)
	}
	for _, s := range secrets {
		if s == "" || strings.Contains(text, s) {
			t.Errorf("%.8s… is in: %s", s, text)
		}
	}
}

// A service-role key bypasses row-level security. The product names one only to warn that it ignores it, and in
// the self-test, which forges a claim.
func TestNoSourceReadsAServiceRoleKey(t *testing.T) {
	t.Parallel()
	may := map[string]bool{"backend/config/load.go": true, "backend/cloudsync/selftest.go": true}
	names := regexp.MustCompile(`(?i)service[_-]?role`)
	read := 0
	root := must[string](t)(filepath.Abs("../.."))
	if err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		switch name := e.Name(); {
		case e.IsDir() && (name == "node_modules" || name == "dist" || name == "bin" || name == "e2e" || rel != "." && strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case !slices.Contains([]string{".go", ".ts", ".js", ".mjs", ".svelte", ".sh", ".sql", ".json", ".yml", ".html"}, filepath.Ext(name)) && name != "Makefile", strings.Contains(name, "_test.go"), strings.Contains(name, ".test."):
			return nil
		}
		text, err := os.ReadFile(path)
		read++
		if names.Match(text) && !may[filepath.ToSlash(rel)] {
			t.Errorf("%s names a service role", rel)
		}
		return err
	}); err != nil || read < 500 {
		t.Errorf("%d files: %v", read, err)
	}
}
