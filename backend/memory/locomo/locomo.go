// Package locomo measures how well search finds the evidence for questions about the LoCoMo
// conversations. Only the command line may import it.
package locomo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"

	"helix/backend/bus"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/memory"
	"helix/backend/memory/search"
	"helix/backend/storage"
)

// file is one conversation of the LoCoMo data (Maharana et al., Evaluating very long-term
// conversational memory of LLM agents, 2024) with its questions.
type file struct {
	path      string
	questions []*question
}

// question is a question with the turns that contain the answer.
type question struct {
	text     string
	category int
	evidence map[string]bool // ids of turns
}

var turnIDs = regexp.MustCompile(`D\d+:\d+`)

// readFiles reads the files of a folder in order of their names. It skips category 5, whose questions have
// no answer, ids of evidence that do not exist, and questions without any evidence left.
func readFiles(dir string) ([]*file, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	paths, err := filepath.Glob(filepath.Join(abs, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var files []*file
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := parse(raw)
		if err != nil {
			return nil, fault.Invalidf("%s is not a LoCoMo conversation.", filepath.Base(path)).WithCause(err)
		}
		f.path = path
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fault.NotFoundf("No LoCoMo conversation (*.json) in %s.", dir)
	}
	return files, nil
}

func parse(raw []byte) (*file, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	var asked []struct {
		Question string   `json:"question"`
		Category int      `json:"category"`
		Evidence []string `json:"evidence"`
	}
	if err := json.Unmarshal(doc["qa"], &asked); err != nil {
		return nil, fmt.Errorf("questions: %w", err)
	}
	if inner, ok := doc["conversation"]; ok {
		doc = nil
		if err := json.Unmarshal(inner, &doc); err != nil {
			return nil, err
		}
	}
	ids := map[string]bool{}
	for key, value := range doc {
		if !strings.HasPrefix(key, "session_") || strings.HasSuffix(key, "_date_time") {
			continue
		}
		var turns []struct {
			ID string `json:"dia_id"`
		}
		if json.Unmarshal(value, &turns) == nil { // other keys have this prefix too
			for _, t := range turns {
				ids[t.ID] = true
			}
		}
	}
	f := &file{}
	for _, a := range asked {
		q := &question{text: a.Question, category: a.Category, evidence: map[string]bool{}}
		for _, e := range a.Evidence {
			for _, id := range turnIDs.FindAllString(e, -1) {
				if ids[id] {
					q.evidence[id] = true
				}
			}
		}
		if a.Category >= 1 && a.Category <= 4 && len(q.evidence) > 0 {
			f.questions = append(f.questions, q)
		}
	}
	return f, nil
}

// store is a memory store filled with conversations by the real import.
type store struct {
	*memory.Service
	db     *storage.DB
	ctx    context.Context
	tuning search.Tuning
	heads  map[uuid.UUID]int // conversation to index of its file
}

// openStore imports files into a new store below dir and computes all vectors.
func openStore(ctx context.Context, dir string, files []*file, o memory.Options) (_ *store, err error) {
	db, err := storage.Open(ctx, storage.Options{Path: filepath.Join(dir, "helix.db"), Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	o.VectorDir, o.TempDir = filepath.Join(dir, "vectors"), dir
	st := &store{Service: memory.New(db, o), db: db, tuning: search.DefaultTuning(o.Weights), heads: map[uuid.UUID]int{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, st.close())
		}
	}()
	st.ctx = identity.With(ctx, identity.Identity{User: db.LocalUser().ID, Session: uuid.New(), Scopes: identity.Admin.Closed(), Client: identity.ClientWindow, Label: "bench-locomo", Pipe: "memory"})
	for i, f := range files {
		if err := st.add(f, i); err != nil {
			return nil, err
		}
	}
	if o.Embedder != nil {
		err = st.EmbedPending(st.ctx)
	}
	return st, err
}

func (st *store) close() error { return errors.Join(st.Service.Close(), st.db.Close()) }

// add imports one file and records the id of its conversation.
func (st *store) add(f *file, place int) error {
	done := make(chan memory.ImportDone, 1)
	var once sync.Once
	cancel := bus.Subscribe(st.db.Bus(), func(_ uuid.UUID, e memory.ImportDone) { once.Do(func() { done <- e }) })
	defer cancel()
	if _, err := st.Import(st.ctx, memory.ImportParams{Path: f.path, Format: "locomo"}); err != nil {
		return err
	}
	select {
	case e := <-done:
		if e.Status != "completed" || e.Failed > 0 {
			return fault.Invalidf("%s was not imported: %s", filepath.Base(f.path), e.Message)
		}
	case <-st.ctx.Done():
		return st.ctx.Err()
	}
	list, err := st.Conversations(st.ctx, memory.PageParams{Limit: 200})
	if err != nil {
		return err
	}
	for _, c := range list.Conversations {
		if _, ok := st.heads[c.ID]; !ok {
			st.heads[c.ID] = place
		}
	}
	return nil
}

// hit is a turn that was found: its file, and its id there.
type hit struct {
	file int
	turn string
}

// recall returns the fraction of the evidence that is among the first ten hits.
func (q *question) recall(file int, hits []hit) float64 {
	n := 0
	for _, h := range hits[:min(len(hits), 10)] {
		if h.file == file && q.evidence[h.turn] {
			n++
		}
	}
	return float64(n) / float64(len(q.evidence))
}

// ask runs one question in one of the measured modes. The two modes that begin with bm25 rank with
// FTS5 alone over the same index: with all words, or without stop words.
func (st *store) ask(mode, text string) ([]hit, error) {
	switch mode {
	case "bm25":
		return st.askFTS(search.FTSQuery(text, false))
	case "bm25-stop":
		return st.askFTS(search.FTSQuery(text, true))
	}
	res, err := st.Index().SearchTuned(st.ctx, search.Params{Query: text, Mode: mode}, &st.tuning)
	if err != nil {
		return nil, err
	}
	hits := make([]hit, 0, len(res.Results))
	for _, h := range res.Results {
		e := h.Evidence[0]
		if e.ConversationID == nil {
			continue
		}
		hits = append(hits, hit{st.heads[*e.ConversationID], e.TurnID})
	}
	return hits, nil
}

func (st *store) askFTS(match string) (hits []hit, err error) {
	if match == "" {
		return nil, nil
	}
	err = st.db.Read(st.ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT t.conversation_id, t.external_id FROM search_fts JOIN search_items s ON s.item = search_fts.rowid JOIN conversation_turns t ON t.id = s.item_id
			WHERE search_fts MATCH ? ORDER BY bm25(search_fts, 2, 1.5, 1), s.item LIMIT 10`, match).Each(func(row storage.Row) error {
			var head uuid.UUID
			var h hit
			if err := row.Scan(&head, &h.turn); err != nil {
				return err
			}
			h.file = st.heads[head]
			hits = append(hits, h)
			return nil
		})
	})
	return hits, err
}
