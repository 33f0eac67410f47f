package cloudsync

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/storage"
)

// text returns the content of a memory, or "" if it does not exist.
func (d *device) text(id uuid.UUID) string {
	return one[string](d, `SELECT coalesce((SELECT content FROM memories WHERE id = ?), '')`, id)
}

func TestRotatedKeyReachesDevicesAndKeepsOldTextsReadable(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	old := a.remember("old text")
	settleAll(a, b)
	b.edit(old, "old text, changed while the key changes") // pending on b
	r := must[RotateKeyResult](t)(a.RotateKey(a.ctx, struct{}{}))
	if r.KeyVersion != 2 || r.Queued == 0 {
		t.Errorf("%+v", r)
	}
	fresh := a.remember("new text")
	a.now()
	c := newDevice(t)
	c.join(a) // receives both keys with the invitation
	settleAll(b, a, c)
	same(t, a, b, c)
	for _, d := range []*device{a, b, c} {
		if d.text(fresh) != "new text" || d.text(old) != "old text, changed while the key changes" {
			t.Errorf("%q, %q", d.text(fresh), d.text(old))
		}
		d.noDeadLetters()
		if l := must[local](t)(d.local(d.ctx)); l.keyVersion != 2 {
			t.Errorf("key version %d", l.keyVersion)
		}
	}
	var texts []string
	conn := admin(t, dsn)
	texts = must[[]string](t)(collectText(t.Context(), conn, `select content from public.memories`))
	for _, text := range texts {
		if !strings.HasPrefix(text, "hx1.2.") {
			t.Errorf("not encrypted again: %.20s", text)
		}
	}
	must[RotateKeyResult](t)(b.RotateKey(b.ctx, struct{}{}))
	settleAll(b, a, c)
	same(t, a, b, c)
	for _, d := range []*device{a, b, c} {
		if l := must[local](t)(d.local(d.ctx)); l.keyVersion != 3 {
			t.Errorf("key version %d", l.keyVersion)
		}
	}
}

// If a rotation was interrupted after the hub stored the key but before the device did, the next
// exchange completes it.
func TestRotationEndsAfterCrash(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	id := a.remember("text")
	settleAll(a, b)
	l := must[local](t)(a.local(a.ctx))
	before := must[[]byte](t)(a.secrets.Value(a.ctx, keySecret))
	must[RotateKeyResult](t)(a.RotateKey(a.ctx, struct{}{}))
	a.write(func(tx *storage.Tx) error { // as if the process had been killed before it stored the key
		if err := a.secrets.SetTx(tx, keySecret, before); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE sync_local SET key_version = ?`, l.keyVersion)
		return err
	})
	a.exec(`DELETE FROM change_log`)
	settleAll(a, b)
	var text string
	if err := admin(t, dsn).QueryRow(t.Context(), `select content from public.memories where id = $1`, id).Scan(&text); err != nil || !strings.HasPrefix(text, "hx1.2.") {
		t.Errorf("%.10s, %v", text, err)
	}
	if b.text(id) != "text" {
		t.Errorf("%q", b.text(id))
	}
}

// A device that cannot prove that it holds the user's key receives no new key. Rows that it cannot
// decrypt are stored later.
func TestUnknownKeyVersionKeepsCiphertext(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	settleAll(a, b)
	conn := admin(t, dsn)
	var mac []byte
	l := must[local](t)(b.local(b.ctx))
	if err := conn.QueryRow(t.Context(), `update app.device set box_mac = 'forged' where device_id = $1 returning (select box_mac from app.device where device_id = $1)`, l.hub.Device).Scan(&mac); err != nil {
		t.Fatal(err)
	}
	must[RotateKeyResult](t)(a.RotateKey(a.ctx, struct{}{}))
	id := a.remember("secret")
	a.now()
	b.now()
	list := must[DeadLettersResult](t)(b.DeadLetters(b.ctx, struct{}{})).DeadLetters
	if len(list) != 1 || list[0].RowID != id || list[0].Message != "This item needs a key from another device." || b.text(id) != "" {
		t.Errorf("%+v", list)
	}
	if n := one[int](b, `SELECT count(*) FROM sync_dead_letter WHERE payload LIKE '%hx1.2.%'`); n != 1 {
		t.Error("the ciphertext is gone")
	}
	if _, err := b.RotateKey(b.ctx, struct{}{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
	if _, err := conn.Exec(t.Context(), `update app.device set box_mac = $1 where device_id = $2`, mac, l.hub.Device); err != nil {
		t.Fatal(err)
	}
	settleAll(a, b) // a sends the key
	b.noDeadLetters()
	if b.text(id) != "secret" {
		t.Errorf("%q", b.text(id))
	}
}

func TestRecoveryCodeJoinsWhenNoDeviceIsLeft(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	id := a.remember("before")
	a.now()
	first := must[RecoveryResult](t)(a.ExportRecovery(a.ctx, struct{}{})).Code
	code := must[RecoveryResult](t)(b.ExportRecovery(b.ctx, struct{}{})).Code
	must[RotateKeyResult](t)(a.RotateKey(a.ctx, struct{}{}))
	after := a.remember("after the key has changed")
	settleAll(a, b)
	c := newDevice(t)
	if _, err := c.Enroll(c.ctx, EnrollParams{Code: first}); !fault.Is(err, fault.Denied) {
		t.Errorf("a code that another replaced: %v", err)
	}
	if _, err := c.Enroll(c.ctx, EnrollParams{Code: strings.Replace(code, code[:4], "7777", 1)}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a code with a slip: %v", err)
	}
	if !must[SetupResult](t)(c.Enroll(c.ctx, EnrollParams{Code: strings.ToLower(strings.ReplaceAll(code, "-", " "))})).Encrypted {
		t.Error("not encrypted")
	}
	c.identify()
	c.now()
	if c.text(id) != "before" || c.text(after) != "after the key has changed" {
		t.Errorf("%q, %q", c.text(id), c.text(after))
	}
	c.edit(id, "changed by c")
	settleAll(c, a)
	if a.text(id) != "changed by c" {
		t.Errorf("%q", a.text(id))
	}
	// The role of a recovery code sees no rows and can do nothing but join.
	parsed, _ := readRecoveryCode(code)
	derived, err := parsed.derive()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (hubConfig{Host: parsed.host, Port: parsed.port, Database: parsed.database, Role: derived.role}).connect(t.Context(), derived.password)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) //nolint:errcheck // read-only
	for _, query := range []string{`select * from public.memories`, `select * from app.recovery`, `select app.keys()`, `select sync.pull(0)`, `select app.invite_device('x', 'cli', '', '1 minute')`} {
		if _, err := conn.Exec(t.Context(), query); err == nil {
			t.Errorf("%s: allowed", query)
		}
	}
	_ = dsn
}

// A key that the hub makes up is not used.
func TestKeyWithoutProofIsNotTaken(t *testing.T) {
	t.Parallel()
	first, second, third, made := newUserKey(), newUserKey(), newUserKey(), newUserKey()
	whole := keyRing{1: first, 2: second, 3: third}
	for name, c := range map[string]struct {
		has  keyRing
		gets sealedKeys
		want int // newest version
	}{
		"the chain":          {keyRing{1: first}, sealedKeys{whole, whole.proofs()}, 3},
		"no proof":           {keyRing{1: first}, sealedKeys{keyRing{2: made}, nil}, 1},
		"a proof of its own": {keyRing{1: first}, sealedKeys{keyRing{1: made, 2: made}, keyRing{1: made, 2: made}.proofs()}, 1},
		"another one again":  {keyRing{1: first, 2: second}, sealedKeys{keyRing{1: first, 2: made}, keyRing{1: first, 2: made}.proofs()}, 2},
		"a gap":              {keyRing{1: first}, sealedKeys{keyRing{2: second, 3: third}, map[int][]byte{3: keyProof(second, 3, third)}}, 1},
	} {
		ring := maps.Clone(c.has)
		ring.add(c.gets)
		if ring[c.want] == nil || ring[c.want+1] != nil || bytes.Equal(ring[c.want], made) {
			t.Errorf("%s: %v", name, slices.Collect(maps.Keys(ring)))
		}
	}
}

func TestSealedKeyOpensOnlyForItsReceiver(t *testing.T) {
	t.Parallel()
	a, b := newDevice(t), newDevice(t)
	ka, err := a.boxKey(a.ctx)
	if err != nil {
		t.Fatal(err)
	}
	kb, err := b.boxKey(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.New()
	key := newUserKey()
	sealed, err := sealFor(ka.PublicKey().Bytes(), id, sealedKeys{Keys: keyRing{3: key}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := openSealed(ka, id, sealed); err != nil || !bytes.Equal(got.Keys[3], key) {
		t.Errorf("%v, %v", got, err)
	}
	for name, open := range map[string]func() (sealedKeys, error){
		"another receiver": func() (sealedKeys, error) { return openSealed(kb, id, sealed) },
		"another device":   func() (sealedKeys, error) { return openSealed(ka, uuid.New(), sealed) },
		"cut off":          func() (sealedKeys, error) { return openSealed(ka, id, sealed[:20]) },
		"changed":          func() (sealedKeys, error) { return openSealed(ka, id, append(bytes.Clone(sealed[:40]), 'x')) },
		"never sealed": func() (sealedKeys, error) {
			return openSealed(ka, id, append(bytes.Clone(sealed[:32]), `{"keys":{}}`...))
		},
	} {
		if _, err := open(); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// The hub never changes append-only rows, so a rotation leaves them encrypted with the key they were
// sent with, also those that were packaged and not sent yet. All devices can read them, those that join
// later too.
func TestAppendOnlyRowsStayReadableAfterARotation(t *testing.T) {
	t.Parallel()
	a, b, dsn := pair(t)
	r := rand.New(rand.NewPCG(3, 4))
	a.fill(2, r)
	settleAll(a, b)
	a.fill(1, r) // not packaged yet
	b.fill(1, r)
	must[int](t)(b.packageChanges(b.ctx)) // packaged with the former key
	must[RotateKeyResult](t)(a.RotateKey(a.ctx, struct{}{}))
	a.fill(1, r)
	settleAll(a, b)
	c, d := newDevice(t), newDevice(t)
	c.join(a)
	code := must[RecoveryResult](t)(a.ExportRecovery(a.ctx, struct{}{})).Code
	must[SetupResult](t)(d.Enroll(d.ctx, EnrollParams{Code: code}))
	d.identify()
	settleAll(c, d, a, b)
	same(t, a, b, c, d)
	for _, x := range []*device{a, b, c, d} {
		x.noDeadLetters()
	}
	keys := map[string]int{}
	for _, text := range must[[]string](t)(collectText(t.Context(), admin(t, dsn), `select content from public.conversation_turns`)) {
		keys[text[:min(len(text), len("hx1.1."))]]++
	}
	if keys["hx1.1."] < 3 || keys["hx1.2."] < 2 || len(keys) != 2 {
		t.Errorf("rows by key: %v", keys)
	}
}
