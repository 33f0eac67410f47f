package backend

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/gateway"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// memoryPipe is a transport for calling the memory methods.
type memoryPipe struct {
	*Backend
	t      *testing.T
	name   string
	do     func(method string, params, result any) error
	called map[string]bool
}

func (p *memoryPipe) call(method string, params, result any) {
	p.t.Helper()
	p.called[method] = true
	if err := p.do(method, params, result); err != nil {
		p.t.Fatalf("%s over %s: %v", method, p.name, err)
	}
}

// memoryPipes returns the transports: a socket, single requests, and the bridge of the window.
func memoryPipes(t *testing.T, b *Backend) []*memoryPipe {
	t.Helper()
	socket := b.session(t)
	token, _, err := b.Root.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server, client := gateway.MemoryPipe()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = b.Gateway.Serve(ctx, server, identity.Identity{User: b.LocalUser(), Scopes: identity.Admin.Closed(), Client: identity.ClientWindow, Label: "window", Pipe: "bridge"}) // ends with the test
	}()
	bridge, err := gateway.DialOver(t.Context(), client, gateway.ClientOptions{Scopes: []string{"admin"}, Client: gateway.ClientInfo{ID: "bridge-test"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bridge.Close(); cancel(); <-ended })
	post := func(method string, params, result any) error {
		body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.Gateway.URL()+"/rpc", bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var a struct {
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
			return err
		}
		if a.Error != nil {
			return fmt.Errorf("%s", a.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(a.Result, result)
	}
	return []*memoryPipe{
		{Backend: b, t: t, name: "socket", do: socket.try},
		{Backend: b, t: t, name: "post", do: post},
		{Backend: b, t: t, name: "bridge", do: func(method string, params, result any) error { return bridge.Call(t.Context(), method, params, result) }},
	}
}

// talk returns a conversation in the format of a ChatGPT export: turns in order, user first.
func talk(t *testing.T, title string, turns ...string) string {
	t.Helper()
	mapping := map[string]any{"root": map[string]any{"id": "root", "children": []string{"m0"}}}
	for i, text := range turns {
		id, parent, children := fmt.Sprintf("m%d", i), "root", []string{}
		if i > 0 {
			parent = fmt.Sprintf("m%d", i-1)
		}
		if i+1 < len(turns) {
			children = append(children, fmt.Sprintf("m%d", i+1))
		}
		role := []string{"user", "assistant"}[i%2]
		mapping[id] = map[string]any{"id": id, "parent": parent, "children": children, "message": map[string]any{
			"id": id, "author": map[string]any{"role": role}, "create_time": 1683550560 + 60*i, "content": map[string]any{"content_type": "text", "parts": []string{text}},
		}}
	}
	file := filepath.Join(t.TempDir(), "conversations.json")
	body := raw(t, []any{map[string]any{"id": title, "conversation_id": title, "title": title, "create_time": 1683550560, "update_time": 1683560560, "current_node": fmt.Sprintf("m%d", len(turns)-1), "mapping": mapping}})
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// importFile imports a file and waits until all of it is stored.
func (p *memoryPipe) importFile(params memory.ImportParams) memory.ImportStatus {
	p.t.Helper()
	var job memory.JobResult
	p.call("memory.import", params, &job)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		var st memory.ImportStatus
		p.call("memory.import_status", memory.JobParams(job), &st)
		if st.Status != "pending" && st.Status != "running" {
			return st
		}
		if time.Since(began) > patience {
			p.t.Fatalf("the import does not end: %+v", st)
		}
	}
}

// embedded waits until everything has its vector and search reports that, which may be a moment
// later. It returns false if the build has no sentence encoder.
func (p *memoryPipe) embedded() bool {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		var st memory.EmbeddingStatus
		p.call("memory.embedding_status", none{}, &st)
		if !st.Available {
			return false
		}
		var r search.Result
		if st.Ready > 0 && st.Queued == 0 && st.Stale == 0 && p.do("memory.search", search.Params{Query: "ready", Mode: "vector"}, &r) == nil && r.Degraded == "" {
			return true
		}
		if time.Since(began) > patience {
			p.t.Fatalf("the embedding does not end: %+v", st)
		}
	}
}

// shows reports whether a result is of the kind and contains the text.
func shows(hits []search.Hit, kind, text string) bool {
	return slices.ContainsFunc(hits, func(h search.Hit) bool { return h.Kind == kind && strings.Contains(h.Snippet, text) })
}

func snippets(hits []search.Hit) (out []string) {
	for _, h := range hits {
		out = append(out, h.Kind+": "+h.Snippet)
	}
	return out
}

func (p *memoryPipe) search(method, query string) []search.Hit {
	p.t.Helper()
	var r search.Result
	p.call(method, search.Params{Query: query}, &r)
	return r.Results
}

// memoryRows creates a memory with a history, a conversation, a document and an import, and waits
// until the background work on them is complete.
func memoryRows(t *testing.T, b *Backend, word string) (ids []uuid.UUID) {
	t.Helper()
	p := overSocket(t, b)
	job := p.importFile(memory.ImportParams{Path: talk(t, word, word+" is a cake.", "With onions, "+word+"?"), Tags: []string{word}})
	if job.Added != 2 {
		t.Fatalf("%+v", job)
	}
	hits := p.search("memory.search", word)
	if len(hits) == 0 || len(hits[0].Evidence) == 0 || hits[0].Evidence[0].ConversationID == nil {
		t.Fatalf("%+v", hits)
	}
	var made memory.AddResult
	p.call("memory.add", memory.AddParams{Content: word + " needs an hour.", Tags: []string{word}}, &made)
	text := word + " needs two hours."
	p.call("memory.update", memory.UpdateParams{ID: made.Item.ID.String(), Version: made.Item.Version, Content: &text}, nil)
	var up memory.UpsertResult
	p.call("memory.upsert_chunks", memory.UpsertParams{Source: memory.UpsertSource{URI: "note:" + word, Title: word}, Text: &text}, &up)
	p.embedded()
	return []uuid.UUID{job.JobID, hits[0].ID, *hits[0].Evidence[0].ConversationID, made.Item.ID, up.DocumentID}
}

// Every method and alias of memory works over each transport.
func TestMemoryOverEachPipe(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, p := range memoryPipes(t, b) {
		p.called = map[string]bool{}
		p.life()
		for _, m := range b.API.Methods() {
			if (strings.HasPrefix(m.Name, "memory.") || strings.HasPrefix(m.Name, "memory_") || strings.HasPrefix(m.Name, "psychology.")) && !p.called[m.Name] {
				t.Errorf("%s is not called over %s", m.Name, p.name)
			}
		}
	}
}

// life calls every method once, with its own texts.
func (p *memoryPipe) life() {
	t := p.t
	t.Helper()
	word := "Quittengelee" + p.name
	file := talk(t, "Dinner "+p.name, "Where did we eat "+word+"?", "At the small place beside the mill.")
	path := file
	if p.name == "bridge" {
		if err := p.do("memory.import_preview", memory.ImportParams{Path: file}, nil); !fault.Is(err, fault.Denied) {
			t.Errorf("a path of the window's making: %v", err)
		}
		path = p.Picks.Add(p.LocalUser(), file, false)
	}
	var preview memory.PreviewResult
	p.call("memory.import_preview", memory.ImportParams{Path: path}, &preview)
	if preview.Format != "chatgpt" || preview.Conversations != 1 || preview.Items != 2 || preview.Duplicates != 0 || len(preview.Samples) == 0 {
		t.Errorf("preview: %+v", preview)
	}
	if st := p.importFile(memory.ImportParams{Path: path}); st.Status != "completed" || st.Added != 2 {
		t.Fatalf("import: %+v", st)
	}
	again := p.importFile(memory.ImportParams{Path: path})
	if again.Status != "completed" || again.Added != 0 {
		t.Errorf("the second import: %+v", again)
	}
	p.call("memory.import_cancel", memory.JobParams{JobID: again.JobID}, &again)
	if again.Status != "completed" {
		t.Errorf("canceled after its end: %+v", again)
	}
	var jobs memory.ImportsResult
	if p.call("memory.imports", memory.PageParams{}, &jobs); jobs.Total < 2 || jobs.Jobs[0].JobID != again.JobID {
		t.Errorf("imports: %+v", jobs)
	}
	found := p.search("memory.search", "Where did we eat "+word)
	at := slices.IndexFunc(found, func(h search.Hit) bool { return h.Kind == memory.KindTurn && strings.Contains(h.Snippet, word) })
	if at < 0 || !found[at].Untrusted {
		t.Fatalf("search: %q", snippets(found))
	}
	p.watch()
	p.items(word)
	p.readers(found[at], word)
	p.patterns()
	p.documents(word)

	p.embedded()
	var st memory.EmbeddingStatus
	p.call("memory.reembed", memory.ReembedParams{Failed: true}, &st)
	if st.Failed != 0 {
		t.Errorf("embedding: %+v", st)
	}
	var stats memory.Stats
	if p.call("memory.stats", none{}, &stats); stats.Turns < 2 || stats.Memories < 1 || stats.Documents < 1 || stats.Chunks < 1 {
		t.Errorf("stats: %+v", stats)
	}
	p.export(word)
}

// watch calls the methods of watched folders once.
func (p *memoryPipe) watch() {
	t := p.t
	t.Helper()
	dir := t.TempDir()
	path := dir
	if p.name == "bridge" {
		path = p.Picks.Add(p.LocalUser(), dir, false)
	}
	var w memory.WatchedFolder
	p.call("memory.watch_add", memory.WatchAddParams{Path: path}, &w)
	var list memory.WatchListResult
	p.call("memory.watch_list", none{}, &list)
	if !slices.ContainsFunc(list.Folders, func(f memory.WatchedFolder) bool { return f.WatchID == w.WatchID && f.Path == dir }) {
		t.Errorf("%+v", list)
	}
	this := memory.WatchParams{WatchID: w.WatchID}
	p.call("memory.watch_pause", this, &w)
	if w.State != "paused" {
		t.Errorf("%+v", w)
	}
	p.call("memory.watch_resume", this, &w)
	if w.State == "paused" {
		t.Errorf("%+v", w)
	}
	p.call("memory.watch_remove", this, &w)
}

// items adds, changes and removes memories.
func (p *memoryPipe) items(word string) {
	t := p.t
	t.Helper()
	var made memory.AddResult
	p.call("memory.add", memory.AddParams{Content: "The recipe of " + word + " is in the blue book.", Tags: []string{" Kitchen "}}, &made)
	if made.Item == nil || made.Deduplicated || len(made.Item.Tags) != 1 || made.Item.Tags[0] != "kitchen" {
		t.Fatalf("add: %+v", made)
	}
	id := made.Item.ID.String()
	var saved memory.AddResult
	p.call("memory_save", memory.AddParams{Content: "The recipe of " + word + " is in the blue book."}, &saved)
	if !saved.Deduplicated || saved.Item == nil || saved.Item.ID != made.Item.ID {
		t.Errorf("the same again: %+v", saved)
	}
	var batch memory.AddBatchResult
	p.call("memory.add_batch", memory.AddBatchParams{Items: []memory.AddParams{{Content: "A second thing of " + p.name}, {Content: ""}}}, &batch)
	if len(batch.Items) != 2 || batch.Items[0].Item == nil || batch.Items[1].Error == nil || batch.Items[1].Error.Message == "" {
		t.Errorf("batch: %+v", batch)
	}
	for _, alias := range []string{"memory_search", "memory.search"} {
		if hits := p.search(alias, "blue book recipe "+word); !shows(hits, memory.KindMemory, word) {
			t.Errorf("%s: %q", alias, snippets(hits))
		}
	}
	var item memory.Item
	p.call("memory.get", memory.GetParams{ID: "note-" + id, Touch: true}, &item)
	if item.ID != made.Item.ID || item.AccessCount < 1 {
		t.Errorf("get: %+v", item)
	}
	var list memory.ListResult
	if p.call("memory.list", memory.ListParams{Filters: &search.Filters{TagsAll: []string{"kitchen"}}}, &list); list.Total < 1 {
		t.Errorf("list: %+v", list)
	}
	text := "The recipe of " + word + " is in the green book."
	p.call("memory.update", memory.UpdateParams{ID: id, Version: item.Version, Content: &text}, &item)
	if item.Content != text {
		t.Errorf("update: %+v", item)
	}
	if err := p.do("memory_update", memory.UpdateParams{ID: id, Version: item.Version - 1, Content: &text}, nil); err == nil {
		t.Error("an edit of an old version was taken")
	}
	layer := 3
	p.call("memory_update", memory.UpdateParams{ID: id, Version: item.Version, Layer: &layer}, &item)
	var past memory.HistoryResult
	if p.call("memory.history", memory.HistoryParams{ID: id}, &past); len(past.Revisions) == 0 || !strings.Contains(past.Revisions[len(past.Revisions)-1].Content, "blue book") {
		t.Errorf("history: %+v", past)
	}
	var items memory.ItemsResult
	if p.call("memory.tag", memory.TagParams{ID: id, Add: []string{"autumn"}, Remove: []string{"kitchen"}}, &items); len(items.Items) != 1 || strings.Join(items.Items[0].Tags, " ") != "autumn" {
		t.Errorf("tag: %+v", items)
	}
	if p.call("memory.set_salience", memory.SalienceParams{ID: id, Tier: "high"}, &items); len(items.Items) != 1 || items.Items[0].Salience != 75 {
		t.Errorf("salience: %+v", items)
	}
	if p.call("memory.pin", memory.PinParams{ID: id}, &items); len(items.Items) != 1 || !items.Items[0].Pinned {
		t.Errorf("pin: %+v", items)
	}
	var n memory.CountResult
	if p.call("memory.delete", memory.IDsParams{IDs: []string{id}}, &n); n.Count != 1 || n.UndoToken == "" {
		t.Fatalf("delete: %+v", n)
	}
	for _, h := range p.search("memory.search", "green book "+word) {
		if h.ID == made.Item.ID {
			t.Error("what was deleted is found")
		}
	}
	p.call("memory.undo", memory.UndoParams{UndoToken: n.UndoToken}, &n)
	p.call("memory_delete", memory.IDsParams{IDs: []string{id}}, &n)
	if p.call("memory.restore", memory.IDsParams{IDs: []string{id}}, &n); n.Count != 1 {
		t.Errorf("restore: %+v", n)
	}
	if p.call("memory.get", memory.GetParams{ID: id}, &item); !item.Pinned || item.SalienceTier != "high" || strings.Join(item.Tags, " ") != "autumn" {
		t.Errorf("after restore: %+v", item)
	}
	second := batch.Items[0].Item.ID.String()
	p.call("memory.delete", memory.IDsParams{IDs: []string{second}}, &n)
	if p.call("memory.purge", memory.IDsParams{IDs: []string{second}}, &n); n.Count != 1 {
		t.Errorf("purge: %+v", n)
	}
	if err := p.do("memory.get", memory.GetParams{ID: second}, nil); err == nil {
		t.Error("what was purged is there")
	}
}

// readers reads the context of a hit, and deletes and restores its conversation.
func (p *memoryPipe) readers(h search.Hit, word string) {
	t := p.t
	t.Helper()
	var full search.EnhancedResult
	two := 2
	p.call("memory.search_enhanced", search.EnhancedParams{Params: search.Params{Query: word}, Expand: &two, GroupBy: "source", Facets: true}, &full)
	if len(full.Results) == 0 || full.Facets == nil || len(full.Groups) == 0 || full.Results[0].Parts == nil {
		t.Errorf("enhanced: %+v", full)
	}
	var like search.Result
	p.call("memory.related", search.RelatedParams{ID: h.ID.String()}, &like)
	if len(h.Evidence) == 0 || h.Evidence[0].ConversationID == nil || h.Evidence[0].Seq == nil {
		t.Fatalf("the hit names no evidence: %+v", h)
	}
	id := *h.Evidence[0].ConversationID
	var list memory.ConversationsResult
	if p.call("memory.conversations", memory.PageParams{Query: p.name}, &list); list.Total != 1 || list.Conversations[0].ID != id || list.Conversations[0].Turns != 2 {
		t.Errorf("conversations: %+v", list)
	}
	var one memory.ConversationResult
	if p.call("memory.conversation", memory.ConversationParams{ID: id, AroundSeq: h.Evidence[0].Seq}, &one); len(one.Turns) != 2 || !strings.Contains(one.Turns[0].Text, word) {
		t.Errorf("conversation: %+v", one)
	}
	var n memory.CountResult
	p.call("memory.set_untrusted", memory.TrustParams{ConversationID: &id}, &n)
	if hits := p.search("memory.search", word); slices.ContainsFunc(hits, func(x search.Hit) bool { return x.ID == h.ID && x.Untrusted }) {
		t.Errorf("it is foreign text still: %q", snippets(hits))
	}
	p.call("memory.delete_conversation", memory.ConversationIDParams{ID: id}, &n)
	if hits := p.search("memory.search", "Where did we eat "+word); shows(hits, memory.KindTurn, word) {
		t.Errorf("a turn of a deleted conversation is found: %q", snippets(hits))
	}
	p.call("memory.undo", memory.UndoParams{UndoToken: n.UndoToken}, &n)
	if hits := p.search("memory.search", "Where did we eat "+word); !shows(hits, memory.KindTurn, word) {
		t.Errorf("the conversation did not come back: %q", snippets(hits))
	}
}

// documents stores a text, changes it, deletes and restores it.
func (p *memoryPipe) documents(word string) {
	t := p.t
	t.Helper()
	text := "# Garden\n\nThe quince tree for " + word + " stands behind the shed.\n"
	var up memory.UpsertResult
	p.call("memory.upsert_chunks", memory.UpsertParams{Source: memory.UpsertSource{URI: "note:" + p.name, Title: "Garden " + p.name}, Text: &text}, &up)
	if up.Added != 1 || up.DocumentID == uuid.Nil {
		t.Fatalf("upsert: %+v", up)
	}
	p.call("memory.upsert_chunks", memory.UpsertParams{Source: memory.UpsertSource{URI: "note:" + p.name, Title: "Garden " + p.name}, Text: &text}, &up)
	if up.Added != 0 || up.Kept != 1 || up.Removed != 0 {
		t.Errorf("the same again: %+v", up)
	}
	var list memory.DocumentsResult
	if p.call("memory.list_documents", memory.PageParams{Query: p.name}, &list); list.Total != 1 || list.Documents[0].ID != up.DocumentID {
		t.Errorf("documents: %+v", list)
	}
	var view memory.DocumentView
	if p.call("memory.document", memory.DocumentViewParams{ID: up.DocumentID}, &view); len(view.Chunks) != 1 || !strings.Contains(view.Chunks[0].Text, "behind the shed") {
		t.Errorf("document: %+v", view)
	}
	var n memory.CountResult
	p.call("memory.delete_document", memory.DocumentParams{DocumentID: up.DocumentID}, &n)
	p.call("memory.undo", memory.UndoParams{UndoToken: n.UndoToken}, &n)
	if hits := p.search("memory.search", "quince tree shed "+word); !shows(hits, memory.KindChunk, word) {
		t.Errorf("the document did not come back: %q", snippets(hits))
	}
}

// export downloads the file of an export: its owner can with the URL, and no one with its name.
func (p *memoryPipe) export(word string) {
	t := p.t
	t.Helper()
	var x memory.ExportResult
	if p.call("memory.export", memory.ExportParams{Format: "jsonl"}, &x); x.Items == 0 || len(x.BlobID) != 64 {
		t.Fatalf("export: %+v", x)
	}
	var u gateway.BlobURL
	p.call("blobs.url", gateway.BlobParams{SHA256: x.BlobID}, &u)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || int64(len(body)) != x.Size || !strings.Contains(string(body), word) {
		t.Errorf("the file: %d, %d of %d bytes, %v", resp.StatusCode, len(body), x.Size, err)
	}
	other, err := p.DB.AddUser(t.Context(), "Other "+p.name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Gateway.BlobsURL(p.as(other.ID), gateway.BlobParams{SHA256: x.BlobID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another user's export: %v", err)
	}
}

// TestProgramCannotStoreWhatItRecalled searches and stores the result over the gateway as a
// program.
func TestProgramCannotStoreWhatItRecalled(t *testing.T) {
	t.Parallel()
	b := start(t)
	person := b.session(t)
	server, client := gateway.MemoryPipe()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = b.Gateway.Serve(ctx, server, identity.Identity{User: b.LocalUser(), Session: uuid.New(), Scopes: identity.Write.Closed(), Pipe: "agent"}) // ends with the test
	}()
	c, err := gateway.DialOver(t.Context(), client, gateway.ClientOptions{Scopes: []string{"read", "write"}, Client: gateway.ClientInfo{ID: "program"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(); cancel(); <-ended })
	program := &remote{t, c}
	var kept memory.AddResult
	person.call("memory.add", memory.AddParams{Content: "the spare key hangs behind the blue door of the shed"}, &kept)

	add := func(text string) (r memory.AddResult) {
		program.call("memory.add", memory.AddParams{Content: text}, &r)
		return r
	}
	program.call("memory.search", search.Params{Query: "spare key", Mode: "keyword"}, nil)
	if r := add("Noted: the spare key hangs behind the blue door of the shed!"); !r.Deduplicated || r.Item != nil {
		t.Errorf("a near-copy was stored: %+v", r)
	}
	if r := add("the letter box needs a new lock before winter"); r.Deduplicated || r.Item == nil || r.Item.Source != "agent" {
		t.Errorf("new text was not stored: %+v", r)
	}
	var after memory.Item
	person.call("memory.get", memory.GetParams{ID: kept.Item.ID.String()}, &after)
	if after.AccessCount != 1 || after.LastReinforcedAt == nil || after.Version != 2 {
		t.Errorf("the memory that was repeated: %d uses, version %d", after.AccessCount, after.Version)
	}
}

func TestMemoriesCitedByAgentAreReinforced(t *testing.T) {
	t.Parallel()
	b := start(t)
	ctx := b.as(b.LocalUser())
	var made [2]memory.AddResult
	for i, text := range []string{"the key lies under the third stone", "the ladder is behind the shed"} {
		var err error
		if made[i], err = b.Memory.Add(ctx, memory.AddParams{Content: text}); err != nil {
			t.Fatal(err)
		}
	}
	err := b.DB.Write(ctx, func(tx *storage.Tx) error {
		answer := fmt.Sprintf("Under the third stone [memory %s], see also [turn %s].", made[0].Item.ID, uuid.New())
		return agentMemory{b.Memory}.Said(ctx, tx, uuid.New(), "assistant", "1", answer, tx.Now)
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{1, 0} {
		if m, err := b.Memory.Get(ctx, memory.GetParams{ID: made[i].Item.ID.String()}); err != nil || int64(m.AccessCount) != want {
			t.Errorf("%q was accessed %d times, not %d: %v", m.Content, m.AccessCount, want, err)
		}
	}
}
