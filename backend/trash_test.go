package backend

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/agent"
	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/memory"
	"helix/backend/providers"
	"helix/backend/scheduler"
	"helix/backend/skills"
	"helix/backend/storage"
	"helix/backend/tools"
	"helix/backend/trash"
	"helix/backend/wasmtools"
)

// deletable has one item of each kind of the local user, named after their kinds.
type deletable struct {
	*chatter
	ids map[string]uuid.UUID
}

var trashKinds = []string{"tool", "wasm", "skill", "schedule", "memory", "conversation", "document", "chat"}

// newDeletable creates one item of each kind and moves all of them to the trash, in this order.
func newDeletable(t *testing.T) *deletable {
	t.Helper()
	d := &deletable{newChatter(t, testOptions(t.TempDir()), providers.ScriptedReply{Text: "Rhubarb."}), map[string]uuid.UUID{}}
	ctx := d.b.as(d.b.LocalUser())
	tool, err := d.b.Tools.Create(ctx, tools.CreateParams{Name: "tool of words", Description: "counts", Code: "export default () => 1"})
	must(t, err)
	wasm, err := d.b.WasmTools.CreateWasm(ctx, wasmtools.CreateWasmParams{Name: "wasm of echoes", Wasm: wasmFile(t, "echo"), Origin: wasmtools.WasmLocal})
	must(t, err)
	skill, err := d.b.Skills.CreateComposite(ctx, skills.SaveParams{Skill: raw(t, map[string]any{"name": "skill of one", "steps": []any{map[string]any{"stepId": "a", "toolType": "transform", "value": 1}}})})
	must(t, err)
	schedule, err := d.b.Scheduler.Create(ctx, scheduler.CreateParams{Name: "schedule of skill", Target: scheduler.Target{Kind: "skill", ID: &skill.SkillID}, Cadence: raw(t, map[string]any{"type": "interval", "everySecs": 86400})})
	must(t, err)
	var note memory.AddResult
	d.call("memory.add", map[string]any{"content": "memory of rain\nit rained"}, &note)
	text := "The tide comes in twice a day."
	d.call("memory.upsert_chunks", memory.UpsertParams{Source: memory.UpsertSource{URI: "note:tides", Title: "document of tides"}, Text: &text}, nil)
	chat := d.create(agent.CreateParams{Title: "chat of pies"})
	if turn := d.say(chat.ID, "What goes into a pie?"); turn.State != agent.Completed {
		t.Fatalf("%+v", turn)
	}
	for i, id := range []uuid.UUID{tool.Tool.ID, wasm.Skill.ID, skill.SkillID, schedule.ScheduleID, note.Item.ID, d.row("conversations"), d.row("documents"), chat.ID} {
		d.ids[trashKinds[i]] = id
	}
	for _, kind := range trashKinds {
		d.delete(kind)
	}
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// row returns the id of the only row of a table.
func (d *deletable) row(table string) (id uuid.UUID) {
	d.t.Helper()
	must(d.t, d.b.DB.Read(d.t.Context(), func(tx *storage.Tx) error { return tx.QueryRow(`SELECT id FROM ` + table).Scan(&id) }))
	return id
}

// rows returns the number of rows of a table.
func (d *deletable) rows(table string) (n int) {
	d.t.Helper()
	must(d.t, d.b.DB.Read(d.t.Context(), func(tx *storage.Tx) error { return tx.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n) }))
	return n
}

// deleteMethods move an item of a kind to the trash: method and name of the parameter.
var deleteMethods = map[string][2]string{
	"tool": {"tools.delete", "toolId"}, "wasm": {"skills.delete_wasm", "skillId"}, "skill": {"skills.delete_composite", "skillId"}, "schedule": {"schedules.delete", "scheduleId"},
	"memory": {"memory.delete", "ids"}, "conversation": {"memory.delete_conversation", "id"}, "document": {"memory.delete_document", "documentId"}, "chat": {"chat.delete", "sessionId"},
}

func (d *deletable) delete(kind string) {
	d.t.Helper()
	m := deleteMethods[kind]
	var id any = d.ids[kind]
	if m[1] == "ids" {
		id = []any{id}
	}
	d.call(m[0], map[string]any{m[1]: id}, nil)
}

func (d *deletable) ref(kind string) trash.Ref { return trash.Ref{Kind: kind, ID: d.ids[kind]} }

// kinds returns the kinds in the trash, latest first.
func (d *deletable) kinds(p trash.ListParams) (out []string) {
	d.t.Helper()
	var list trash.ListResult
	d.call("trash.list", p, &list)
	for _, it := range list.Items {
		out = append(out, it.Kind)
		if it.ID != d.ids[it.Kind] || !strings.HasPrefix(it.Name, it.Kind+" of ") && it.Kind != "conversation" || it.By != "terminal" || it.PurgeAt.Sub(it.DeletedAt) != 30*24*time.Hour {
			d.t.Errorf("%+v", it)
		}
	}
	if list.Total < len(out) {
		d.t.Errorf("%d of %d", len(out), list.Total)
	}
	return out
}

func TestTrashHoldsEveryKind(t *testing.T) {
	t.Parallel()
	d := newDeletable(t)
	latest := slices.Clone(trashKinds)
	slices.Reverse(latest)
	if got := d.kinds(trash.ListParams{}); !slices.Equal(got, latest) {
		t.Errorf("the trash: %v", got)
	}
	for _, c := range []struct {
		p    trash.ListParams
		want []string
	}{
		{trash.ListParams{Kinds: []string{"skill", "tool"}}, []string{"skill", "tool"}},
		{trash.ListParams{Query: "  IT RAINED "}, []string{"memory"}},
		{trash.ListParams{Query: " of ", Limit: 2, Offset: 1}, []string{"document", "memory"}},
		{trash.ListParams{Limit: 2, Offset: 6}, []string{"wasm", "tool"}},
		{trash.ListParams{Kinds: []string{"tool"}, Query: "echoes"}, nil},
	} {
		if got := d.kinds(c.p); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.p, got, c.want)
		}
	}
	if err := d.try("trash.list", trash.ListParams{Kinds: []string{"tools"}}, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown kind: %v", err)
	}
	var items []trash.Ref
	for _, k := range trashKinds {
		items = append(items, d.ref(k))
	}
	var back trash.RestoreResult
	d.call("trash.restore", trash.ItemsParams{Items: items}, &back)
	if len(back.Restored) != len(items) || len(back.Failed) != 0 {
		t.Errorf("%+v", back)
	}
	if got := d.kinds(trash.ListParams{}); got != nil {
		t.Errorf("left in the trash: %v", got)
	}
	for _, name := range []string{"tool of words", "wasm of echoes", "skill of one"} {
		if !strings.Contains(fmt.Sprint(d.names()), name) {
			t.Errorf("%s did not come back: %v", name, d.names())
		}
	}
	if err := d.try("trash.restore", trash.ItemsParams{Items: items[:1]}, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("restored twice: %v", err)
	}
}

// names returns the names of tools, WASM tools and skills.
func (d *deletable) names() (out []string) {
	d.t.Helper()
	for _, table := range []string{"custom_tools", "skills", "composite_skills"} {
		must(d.t, d.b.DB.Read(d.t.Context(), func(tx *storage.Tx) error {
			names, err := storage.Collect(tx.Select(`SELECT name FROM `+table+` WHERE deleted_at IS NULL ORDER BY name`), storage.RowTo[string])
			out = append(out, names...)
			return err
		}))
	}
	return out
}

func TestTrashRestoresUnderAFreeName(t *testing.T) {
	t.Parallel()
	d := newDeletable(t)
	_, err := d.b.Tools.Create(d.b.as(d.b.LocalUser()), tools.CreateParams{Name: "Tool of words", Code: "export default () => 2"})
	must(t, err)
	var back trash.RestoreResult
	d.call("trash.restore", trash.ItemsParams{Items: []trash.Ref{d.ref("tool"), {Kind: "tool", ID: uuid.New()}}}, &back)
	if len(back.Restored) != 1 || len(back.Failed) != 1 || back.Failed[0].Reason != fault.NotFound {
		t.Errorf("%+v", back)
	}
	if got := d.names(); !slices.Equal(got, []string{"Tool of words", "tool of words 2"}) {
		t.Errorf("%q", got)
	}
}

func TestTrashBelongsToItsUser(t *testing.T) {
	t.Parallel()
	d := newDeletable(t)
	other, err := d.b.DB.AddUser(t.Context(), "Other")
	must(t, err)
	ctx := d.b.as(other.ID)
	list, err := d.b.Trash.List(ctx, trash.ListParams{})
	if err != nil || len(list.Items) != 0 || list.Total != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, kind := range trashKinds {
		p := trash.ItemsParams{Items: []trash.Ref{d.ref(kind)}}
		if _, err := d.b.Trash.Restore(ctx, p); !fault.Is(err, fault.NotFound) {
			t.Errorf("restored a %s of somebody else: %v", kind, err)
		}
		if _, err := d.b.Trash.Purge(ctx, p); !fault.Is(err, fault.NotFound) {
			t.Errorf("purged a %s of somebody else: %v", kind, err)
		}
	}
	if gone, err := d.b.Trash.Empty(ctx, trash.EmptyParams{}); err != nil || gone.Count != 0 {
		t.Errorf("%+v, %v", gone, err)
	}
	if got := d.kinds(trash.ListParams{}); len(got) != len(trashKinds) {
		t.Errorf("%v", got)
	}
}

func TestPurgeTakesOnlyWhatIsInTheTrash(t *testing.T) {
	t.Parallel()
	d := newDeletable(t)
	for _, kind := range trashKinds {
		d.call("trash.restore", trash.ItemsParams{Items: []trash.Ref{d.ref(kind)}}, nil)
		if err := d.try("trash.purge", trash.ItemsParams{Items: []trash.Ref{d.ref(kind)}}, nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("purged a live %s: %v", kind, err)
		}
		d.delete(kind)
	}
	token, err := d.remoteWith("write")
	must(t, err)
	for method, p := range map[string]any{"trash.purge": trash.ItemsParams{Items: []trash.Ref{d.ref("tool")}}, "trash.empty": none{}} {
		if err := token.try(method, p, nil); !fault.Is(err, fault.Denied) {
			t.Errorf("%s with the scope write: %v", method, err)
		}
	}
	var gone trash.PurgeResult
	d.call("trash.purge", trash.ItemsParams{Items: []trash.Ref{d.ref("tool"), d.ref("memory"), {Kind: "chat", ID: uuid.New()}}}, &gone)
	if gone.Count != 2 || len(gone.Failed) != 1 || gone.Failed[0].Kind != "chat" {
		t.Errorf("%+v", gone)
	}
	d.call("trash.empty", trash.EmptyParams{Kinds: []string{"skill"}}, &gone)
	if got := d.kinds(trash.ListParams{}); len(got) != 5 || slices.Contains(got, "skill") {
		t.Errorf("%v", got)
	}
	d.call("trash.empty", none{}, &gone)
	if gone.Count != 5 || len(gone.Failed) != 0 || d.kinds(trash.ListParams{}) != nil {
		t.Errorf("%+v", gone)
	}
	for _, table := range []string{"custom_tools", "skills", "composite_skills", "schedules WHERE system_key IS NULL", "sessions", "session_messages", "conversation_events", "agent_turns", "session_state", "session_messages_fts", "chunks", "conversation_turns", "deletions"} {
		if n := d.rows(table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}

// remoteWith returns a session with a created token of these scopes.
func (d *deletable) remoteWith(scopes ...string) (*remote, error) {
	d.t.Helper()
	var made gateway.NewToken
	d.call("tokens.create", map[string]any{"name": "test", "scopes": scopes}, &made)
	c, err := gateway.Dial(d.t.Context(), gateway.ClientOptions{URL: d.b.Gateway.URL(), Token: made.Token, Scopes: scopes, Client: gateway.ClientInfo{ID: "trash-test"}})
	if err != nil {
		return nil, err
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return &remote{d.t, c}, nil
}

func TestRetentionPurgesDeletedChatsAlone(t *testing.T) {
	t.Parallel()
	d := newDeletable(t)
	live := d.create(agent.CreateParams{Title: "live"})
	if turn := d.say(live.ID, "Are you there?"); turn.FinishedAt == nil {
		t.Fatalf("%+v", turn)
	}
	fresh := d.create(agent.CreateParams{Title: "deleted today"})
	d.call("chat.delete", agent.SessionParams{SessionID: fresh.ID}, nil)
	kept := d.messages(live.ID)
	must(t, d.b.DB.Write(d.b.as(d.b.LocalUser()), func(tx *storage.Tx) error {
		old := tx.Now.Add(-31 * 24 * time.Hour)
		if _, err := tx.Exec(`UPDATE sessions SET created_at = ?, last_message_at = ?`, old.Add(-1000*24*time.Hour), old.Add(-1000*24*time.Hour)); err != nil {
			return err
		}
		_, err := tx.Exec(`UPDATE sessions SET deleted_at = ? WHERE id = ?`, old, d.ids["chat"])
		return err
	}))
	_, err := d.b.cleanUp(context.Background())
	must(t, err)
	if got := d.messages(live.ID); len(got) != len(kept) || len(got) == 0 {
		t.Errorf("%d of %d messages of a live chat are left", len(got), len(kept))
	}
	if got := d.kinds(trash.ListParams{Kinds: []string{"chat"}, Query: "pies"}); got != nil {
		t.Error("the old chat is still there")
	}
	var list trash.ListResult
	d.call("trash.list", trash.ListParams{Kinds: []string{"chat"}}, &list)
	if len(list.Items) != 1 || list.Items[0].ID != fresh.ID {
		t.Errorf("%+v", list.Items)
	}
	for _, table := range []string{"session_messages", "conversation_events", "agent_turns", "session_state", "session_blobs"} {
		if n := d.rows(table + " WHERE session_id NOT IN (SELECT id FROM sessions)"); n != 0 {
			t.Errorf("%d rows of %s belong to no chat", n, table)
		}
	}
	if words, messages := d.rows("session_messages_fts"), d.rows("session_messages"); words != messages {
		t.Errorf("%d entries of the word index for %d messages", words, messages)
	}
}

// A deletion by the agent or a skill is shown as theirs.
func TestTrashSaysWhoDeleted(t *testing.T) {
	t.Parallel()
	d := newDeletable(t)
	ctx := d.b.as(d.b.LocalUser())
	for actor, want := range map[string]string{"agent": "agent", "": "window"} {
		d.call("trash.restore", trash.ItemsParams{Items: []trash.Ref{d.ref("memory")}}, nil)
		_, err := d.b.Memory.Delete(trash.By(ctx, actor), memory.IDsParams{IDs: []string{d.ids["memory"].String()}})
		must(t, err)
		list, err := d.b.Trash.List(ctx, trash.ListParams{Kinds: []string{"memory"}})
		if err != nil || len(list.Items) != 1 || list.Items[0].By != want {
			t.Errorf("deleted by %q: %+v, %v", want, list.Items, err)
		}
	}
}

// The log still names a deleted item as long as it is in the trash.
func TestLogNamesWhatIsInTheTrash(t *testing.T) {
	t.Parallel()
	d := newDeletable(t)
	for kind, name := range map[string]string{"tool": "tool of words", "wasm": "wasm of echoes", "skill": "skill of one"} {
		var log audit.ListResult
		d.call("audit.list", audit.ListParams{SubjectID: d.ids[kind].String()}, &log)
		if len(log.Entries) == 0 || log.Entries[0].Subject.Name != name {
			t.Errorf("%s: %+v", kind, log.Entries)
		}
	}
}

// TestTrashAgeSettingDecidesWhatCanBeRestored deletes a tool while items are kept for two days.
func TestTrashAgeSettingDecidesWhatCanBeRestored(t *testing.T) {
	t.Parallel()
	o := testOptions(t.TempDir())
	o.Flags["history.trash_max_age_days"] = "2"
	b := startWith(t, o)
	ctx := b.as(b.DB.LocalUser().ID)
	made, err := b.Tools.Create(ctx, tools.CreateParams{Name: "Old", Code: "return 1"})
	if err != nil {
		t.Fatal(err)
	}
	id := tools.ToolID{ToolID: made.Tool.ID}
	gone, err := b.Tools.Delete(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	until, err := time.Parse(time.RFC3339, gone.UndoUntil)
	if left := time.Until(until); err != nil || left > 48*time.Hour || left < 24*time.Hour {
		t.Errorf("can be restored until %s, %v", gone.UndoUntil, err)
	}
	err = b.DB.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`UPDATE custom_tools SET deleted_at = ? WHERE id = ?`, tx.Now.Add(-3*24*time.Hour), made.Tool.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Tools.Restore(ctx, id); !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "more than 2 days ago") {
		t.Errorf("restored after three days: %v", err)
	}
}
