package cloudsync

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
	"helix/backend/testkit"
)

// relayServer serves the relay of d. The query names the user and the token, instead of the
// gateway.
func (d *device) relayServer() string {
	d.t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		id := identity.Identity{User: d.db.LocalUser().ID, Scopes: identity.Write.Closed()}
		if u := q.Get("user"); u != "" {
			id.User = uuid.MustParse(u)
		}
		if tok := q.Get("token"); tok != "" {
			id.Token = uuid.MustParse(tok)
		}
		if err := d.ServeRelay(w, r.WithContext(identity.With(r.Context(), id))); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	d.t.Cleanup(srv.Close)
	return "ws" + strings.TrimPrefix(srv.URL, "http")
}

// client is one program connected to the relay.
type client struct {
	t   testing.TB
	c   *websocket.Conn
	id  uuid.UUID
	ctx context.Context
}

func dialRelay(t testing.TB, url string) *client {
	t.Helper()
	c, _, err := websocket.Dial(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(64 << 20)
	k := &client{t: t, c: c, id: uuid.New(), ctx: t.Context()}
	t.Cleanup(func() { _ = c.CloseNow() })
	return k
}

func (k *client) sendText(text string) {
	k.t.Helper()
	if err := k.c.Write(k.ctx, websocket.MessageText, []byte(text)); err != nil {
		k.t.Fatal(err)
	}
}

func (k *client) hello(cursor string) *client {
	k.t.Helper()
	k.sendText(fmt.Sprintf(`{"type":"Hello","cursor":%q,"ack":true}`, cursor))
	return k
}

// delta sends a change of a memory, with this client's clock at n and seen for the others.
func (k *client) delta(id uuid.UUID, data string, n int64, seen Clocks) {
	k.t.Helper()
	clock := Clocks{k.id: n}.with(seen)
	text, _ := json.Marshal(clock)
	deleted := ""
	if data == "null" {
		deleted = `,"deleted":true`
	}
	k.sendText(fmt.Sprintf(`{"type":"Delta","entity_type":"memories","entity_id":%q,"data":%s%s,"vector_clock":%s,"device_id":%q}`, id, data, deleted, text, k.id))
}

type anyFrame struct {
	Type     string         `json:"type"`
	EntityID uuid.UUID      `json:"entity_id"`
	Data     map[string]any `json:"data"`
	Deleted  bool           `json:"deleted"`
	Clock    Clocks         `json:"vector_clock"`
	DeviceID uuid.UUID      `json:"device_id"`
	Seq      string         `json:"seq"`
	Result   string         `json:"result"`
	Kind     string         `json:"kind"`
	Message  string         `json:"message"`
	Cursor   string         `json:"cursor"`
	Local    *conflictSide  `json:"local"`
	Remote   *conflictSide  `json:"remote"`
}

// next reads the next frame of a type. It skips Deltas, but fails on other types.
func (k *client) next(kind string) anyFrame {
	k.t.Helper()
	for {
		_, b, err := k.c.Read(k.ctx)
		if err != nil {
			k.t.Fatalf("waiting for %s: %v", kind, err)
		}
		var f anyFrame
		if err := json.Unmarshal(b, &f); err != nil {
			k.t.Fatalf("%v: %s", err, b)
		}
		if f.Type == kind {
			return f
		}
		if f.Type != "Delta" {
			k.t.Fatalf("waiting for %s, got %s", kind, b)
		}
	}
}

const minimal = `{"content":"from a program"}`

func TestRelayPassesChangesToOthersAndNotToTheSender(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	url := d.relayServer()
	a, b, plain := dialRelay(t, url).hello("0"), dialRelay(t, url).hello("0"), dialRelay(t, url)
	testkit.Eventually(t, "the sockets", func() int { // until it is there, a socket without a Hello misses changes
		d.relay.mu.Lock()
		defer d.relay.mu.Unlock()
		return len(d.relay.sockets)
	}, func(n int) bool { return n == 3 })
	id := uuid.UUID(storage.NewID())
	a.delta(id, `{"content":"from a program","tags":["x","y"],"access_count":3}`, 1, nil)
	if f := a.next("Ack"); f.EntityID != id || f.Result != "applied" {
		t.Errorf("%+v", f)
	}
	f := b.next("Delta")
	for f.Seq == "" { // the change came before the Hello, which sends it again
		f = b.next("Delta")
	}
	if f.EntityID != id || f.Data["content"] != "from a program" || f.DeviceID != a.id || f.Clock[a.id] != 1 || fmt.Sprint(f.Data["tags"]) != "[x y]" {
		t.Errorf("%+v", f)
	}
	if f := plain.next("Delta"); f.Seq != "" || f.EntityID != id {
		t.Errorf("%+v", f)
	}
	if got := one[string](d, `SELECT content FROM memories WHERE id = ?`, id); got != "from a program" {
		t.Errorf("%q", got)
	}
	if hash := one[[]byte](d, `SELECT content_hash FROM memories WHERE id = ?`, id); !equal(hash, hashOf(storage.SyncedColumn{Hub: "bytea"}, "from a program")) {
		t.Error("the hash is not that of the text")
	}
	b.delta(id, `{"content":"edited by b"}`, 1, f.Clock)
	if f := a.next("Delta"); f.Data["content"] != "edited by b" { // its own change was not sent back first
		t.Errorf("%+v", f)
	}
	b.next("Ack")
	a.delta(id, minimal, 1, nil) // late, or sent twice
	if f := a.next("Ack"); f.Result != "duplicate" {
		t.Errorf("%+v", f)
	}
	d.edit(id, "edited in the window")
	if f := a.next("Delta"); f.Data["content"] != "edited in the window" || f.DeviceID != d.db.Device().ID || f.Clock[f.DeviceID] != 1 {
		t.Errorf("%+v", f)
	}
	a.delta(id, "null", 2, Clocks{b.id: 1, d.db.Device().ID: 1})
	if f := b.next("Delta"); f.Deleted && f.Data != nil {
		t.Errorf("%+v", f)
	}
}

func TestRelayMergesConcurrentChangesAndTellsBothSides(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	url := d.relayServer()
	a, b := dialRelay(t, url).hello("0"), dialRelay(t, url).hello("0")
	id := uuid.UUID(storage.NewID())
	a.delta(id, `{"content":"base","pinned":false}`, 1, nil)
	seen := b.next("Delta").Clock
	a.next("Ack")
	a.delta(id, `{"content":"of a"}`, 2, nil)
	a.next("Ack")
	b.delta(id, `{"content":"of b"}`, 1, seen)
	for _, k := range []*client{a, b} {
		if k == b {
			if f := k.next("Ack"); f.Result != "merged" {
				t.Errorf("%+v", f)
			}
		}
		f := k.next("Conflict")
		if f.EntityID != id || f.Local.Data["content"] != "of a" || f.Remote.Data["content"] != "of b" || f.Remote.DeviceID != b.id || f.Local.DeviceID != a.id {
			t.Errorf("%+v", f)
		}
	}
	if got := must[ConflictsResult](t)(d.Conflicts(d.ctx, ConflictsParams{})); got.Total != 1 {
		t.Errorf("%+v", got)
	}
	other := uuid.UUID(storage.NewID())
	a.delta(other, minimal, 1, nil)
	a.next("Ack")
	a.delta(other, `{"content":"edited"}`, 2, nil)
	a.next("Ack")
	b.delta(other, "null", 1, Clocks{a.id: 1}) // b had not seen the edit
	b.next("Ack")
	b.next("Conflict")
	if one[bool](d, `SELECT deleted_at IS NOT NULL FROM memories WHERE id = ?`, other) {
		t.Error("a deletion won over an edit that its sender had not seen")
	}
}

func TestRelayCatchesUpAfterADisconnect(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	old := d.remember("older than the relay")
	url := d.relayServer()
	a := dialRelay(t, url).hello("0")
	first := a.next("Delta")
	if first.EntityID != old {
		t.Errorf("%+v", first)
	}
	_ = a.c.Close(websocket.StatusNormalClosure, "")
	ids := map[uuid.UUID]bool{}
	for i := range 3*relayPage/2 + 1 {
		ids[d.remember(fmt.Sprint(i))] = true
	}
	d.edit(old, "and its edit")
	ids[old] = true
	a = dialRelay(t, url).hello(first.Seq)
	for len(ids) > 0 {
		f := a.next("Delta")
		if !ids[f.EntityID] {
			t.Fatalf("twice or unknown: %+v", f)
		}
		delete(ids, f.EntityID)
	}
	live := d.remember("live again")
	if f := a.next("Delta"); f.EntityID != live {
		t.Errorf("%+v", f)
	}
	if f := dialRelay(t, url).hello("99999").next("Resync"); f.Cursor != "0" {
		t.Errorf("%+v", f)
	}
}

func TestRelaySlowReaderIsToldToComeAgain(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	url := d.relayServer()
	slow, fast := dialRelay(t, url).hello("0"), dialRelay(t, url).hello("0")
	big := strings.Repeat("a long text ", 2000)
	const n = 1000
	for i := range n { // 24 MB, more than the system buffers
		d.remember(fmt.Sprint(i, big))
		fast.next("Delta")
	}
	last, got := "0", 0
	for {
		_, b, err := slow.c.Read(slow.ctx)
		if err != nil {
			// On a busy machine nothing was read for so long that a write timed out, which ends the connection without a status.
			if s := websocket.CloseStatus(err); s != websocket.StatusTryAgainLater && s != -1 {
				t.Fatal(err)
			}
			break
		}
		var f anyFrame
		if err := json.Unmarshal(b, &f); err != nil {
			t.Fatal(err)
		}
		if f.Type == "Resync" {
			if f.Cursor != last {
				t.Errorf("Resync names %s, the last change was %s", f.Cursor, last)
			}
			continue
		}
		last, got = f.Seq, got+1
	}
	if got == n {
		t.Fatal("the reader was not slow")
	}
	slow = dialRelay(t, url).hello(last)
	for ; got < n; got++ {
		slow.next("Delta")
	}
}

func TestRelayKeepsUsersAndDevicesApart(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	url := d.relayServer()
	token, other := uuid.NewString(), uuid.NewString()
	a := dialRelay(t, url+"?token="+token).hello("0")
	stranger := dialRelay(t, url+"?user="+uuid.NewString()).hello("0")
	id := uuid.UUID(storage.NewID())
	a.delta(id, minimal, 1, nil)
	a.next("Ack")
	stranger.delta(id, `{"content":"stolen"}`, 1, Clocks{a.id: 1})
	if f := stranger.next("Error"); f.Kind != "not_found" { // and no Delta before it
		t.Errorf("%+v", f)
	}
	again := dialRelay(t, url+"?token="+token).hello("0")
	again.id = uuid.New()
	again.delta(id, minimal, 1, nil)
	if f := again.next("Error"); f.Kind != "denied" {
		t.Errorf("a token with two device ids: %+v", f)
	}
	again.id = a.id // the id is kept across connections
	again.delta(id, `{"content":"mine again"}`, 2, nil)
	again.next("Ack")
	thief := dialRelay(t, url+"?token="+other).hello("0")
	thief.id = a.id
	thief.delta(id, minimal, 3, nil)
	if f := thief.next("Error"); f.Kind != "denied" {
		t.Errorf("another token with the device id: %+v", f)
	}
	thief.id = d.db.Device().ID
	thief.delta(id, minimal, 3, nil)
	if f := thief.next("Error"); f.Kind != "denied" {
		t.Errorf("the device id of the backend: %+v", f)
	}
	if got := one[string](d, `SELECT content FROM memories WHERE id = ?`, id); got != "mine again" {
		t.Errorf("%q", got)
	}
}

func TestRelayRefusesBadFramesAndLives(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	a := dialRelay(t, d.relayServer()).hello("0")
	id := uuid.NewString()
	for _, text := range []string{
		`{`, `[]`, `"x"`, `{"type":"Nonsense"}`, `{"type":"Delta"}`, `{"type":"Delta","entity_id":"no id"}`,
		`{"type":"Delta","entity_type":"sqlite_schema","entity_id":"` + id + `","data":{},"vector_clock":{"` + a.id.String() + `":1},"device_id":"` + a.id.String() + `"}`,
		`{"type":"Delta","entity_type":"memories","entity_id":"` + id + `","data":{"nope":1},"vector_clock":{"` + a.id.String() + `":1},"device_id":"` + a.id.String() + `"}`,
		`{"type":"Delta","entity_type":"memories","entity_id":"` + id + `","data":{"content":"x","layer":99},"vector_clock":{"` + a.id.String() + `":1},"device_id":"` + a.id.String() + `"}`,
		`{"type":"Delta","entity_type":"memories","entity_id":"` + id + `","data":{"content":"x"},"vector_clock":{"` + a.id.String() + `":-1},"device_id":"` + a.id.String() + `"}`,
		`{"type":"Delta","entity_type":"memories","entity_id":"` + id + `","data":{"content":"x"},"vector_clock":{},"device_id":"` + a.id.String() + `"}`,
	} {
		a.sendText(text)
		if f := a.next("Error"); f.Kind != "invalid" {
			t.Errorf("%s: %+v", text, f)
		}
	}
	if n := one[int](d, `SELECT count(*) FROM memories`); n != 0 {
		t.Errorf("%d rows", n)
	}
	a.delta(uuid.New(), minimal, 1, nil)
	a.next("Ack")
	if err := a.c.Write(a.ctx, websocket.MessageText, []byte(`{"type":"Delta","x":"`+strings.Repeat("x", relayFrameBytes)+`"}`)); err == nil {
		_, _, err := a.c.Read(a.ctx)
		if websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
			t.Errorf("a frame that is too large: %v", err)
		}
	}
}

// JavaScript reads numbers as floating-point numbers. A program in it that reads a frame and sends it back
// still has the exact clocks and counters.
func TestRelayNumbersAreExactInJavaScript(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	url := d.relayServer()
	a, b := dialRelay(t, url).hello("0"), dialRelay(t, url)
	id := uuid.UUID(storage.NewID())
	a.delta(id, `{"content":"from a program","access_count":"9223372036854775807"}`, math.MaxInt64, nil)
	a.next("Ack")
	b.hello("0")
	_, frame, err := b.c.Read(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`const f = JSON.parse(require("fs").readFileSync(0, "utf8"));
		f.device_id = %q; f.vector_clock.clocks[f.device_id] = 1; f.data = { access_count: f.data.access_count, content: "from JavaScript" };
		console.log(JSON.stringify(f));`, b.id)
	cmd := exec.Command("node", "-e", script)
	cmd.Stdin = bytes.NewReader(frame)
	sent, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("HELIX_LANES") != "required" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.sendText(string(sent))
	if f := b.next("Ack"); f.Result != "applied" { // merged: it doesn't know the newest version
		t.Errorf("%+v, sent %s", f, sent)
	}
	f := a.next("Delta")
	for f.DeviceID != b.id {
		f = a.next("Delta")
	}
	if f.Clock[a.id] != math.MaxInt64 || f.Data["access_count"] != "9223372036854775807" {
		t.Errorf("%+v", f)
	}
	if n := one[int64](d, `SELECT access_count FROM memories WHERE id = ? AND content = 'from JavaScript'`, id); n != math.MaxInt64 {
		t.Errorf("counter %d", n)
	}
}

// A call of sync.change is a Delta: other programs receive it, a repeated one changes nothing, and one
// that did not know the newest version is merged.
func TestChangeIsADeltaSentAsACall(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	other := dialRelay(t, d.relayServer()).hello("0")
	p := ChangeParams{EntityType: "memories", EntityID: uuid.New(), DeviceID: uuid.New(), Data: json.RawMessage(minimal)}
	clock := func(n string) json.RawMessage { return json.RawMessage(`{"` + p.DeviceID.String() + `":` + n + `}`) }
	p.VectorClock = clock("1")
	for _, want := range []string{"applied", "duplicate"} {
		if r := must[ChangeResult](t)(d.Change(d.ctx, p)); r.Result != want || r.Seq == "" {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	if f := other.next("Delta"); f.EntityID != p.EntityID || f.DeviceID != p.DeviceID {
		t.Errorf("%+v", f)
	}
	d.exec(`UPDATE memories SET salience = 71 WHERE id = ?`, p.EntityID)
	p.Data, p.VectorClock = json.RawMessage(`{"pinned":true}`), clock(`"9007199254740993"`)
	if r := must[ChangeResult](t)(d.Change(d.ctx, p)); r.Result != "merged" {
		t.Errorf("%+v", r)
	}
	if got := one[string](d, `SELECT cast(salience AS INTEGER) || ' ' || pinned FROM memories WHERE id = ?`, p.EntityID); got != "71 1" {
		t.Errorf("%q", got)
	}
	for _, bad := range []ChangeParams{
		{}, {EntityType: "memories", EntityID: p.EntityID}, {EntityType: "sqlite_schema", EntityID: p.EntityID, DeviceID: p.DeviceID, VectorClock: clock("1")},
		{EntityType: "memories", EntityID: p.EntityID, DeviceID: p.DeviceID, VectorClock: json.RawMessage(`[]`)},
	} {
		if _, err := d.Change(d.ctx, bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// Through the relay, a program may restrict access to what it reaches, but never allow it.
func TestRelayCannotAllow(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	id := uuid.UUID(storage.NewID())
	d.exec(`INSERT INTO schedules (id, user_id, name, target_kind, target_id, cadence, timezone, is_enabled, status, created_at, updated_at) VALUES (?, ?, 's', 'tool', ?, '{}', 'UTC', 0, 'paused', 1, 1)`, id, d.db.LocalUser().ID, storage.NewID())
	a := dialRelay(t, d.relayServer()).hello("0")
	a.next("Delta")
	a.sendText(fmt.Sprintf(`{"type":"Delta","entity_type":"schedules","entity_id":%q,"data":{"is_enabled":true,"status":"active","name":"renamed"},"vector_clock":{%q:1},"device_id":%q}`, id, a.id, a.id))
	a.next("Ack")
	if got := one[string](d, `SELECT is_enabled || name FROM schedules WHERE id = ?`, id); got != "0renamed" {
		t.Errorf("%q", got)
	}
}

func TestRelayCarriesChangesToAndFromTheHub(t *testing.T) {
	t.Parallel()
	a, b, _ := connected(t)
	k := dialRelay(t, a.relayServer()).hello("0")
	m := dialRelay(t, b.relayServer()).hello("0")
	id := uuid.UUID(storage.NewID())
	k.delta(id, minimal, 1, nil)
	k.next("Ack")
	a.now()
	b.now()
	f := m.next("Delta")
	if f.EntityID != id || f.DeviceID.String() != must[StatusResult](t)(a.Status(a.ctx, struct{}{})).Device {
		t.Errorf("%+v", f)
	}
	m.delta(id, `{"content":"back"}`, 1, f.Clock)
	m.next("Ack")
	b.now()
	a.now()
	if f := k.next("Delta"); f.Data["content"] != "back" {
		t.Errorf("%+v", f)
	}
	same(t, a, b)
}
