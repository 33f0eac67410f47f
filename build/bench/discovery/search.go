package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"helix/backend"
	"helix/backend/config"
	"helix/backend/discovery"
	"helix/backend/storage"
	"helixbench/figures"
)

const entries = 10_000

// searches measures a search by words and meaning in a list of 10,000 APIs, once all of them have their
// vectors, against the same words in a table of FTS5.
func searches(ctx context.Context, b *backend.Backend) {
	type entry struct {
		Name        string   `json:"name"`
		Title       string   `json:"title"`
		Description string   `json:"description"`
		Tags        []string `json:"tags"`
		Hosts       []string `json:"hosts"`
		Auth        string   `json:"auth"`
		URL         string   `json:"url"`
	}
	words := strings.Fields("weather forecast map route payment invoice photo music translate currency stock news calendar mail chat storage search index login user order product price ship track bank account health sport travel hotel")
	list, table := make([]entry, entries), &bytes.Buffer{}
	fmt.Fprintln(table, "CREATE VIRTUAL TABLE apis USING fts5 (name, text); BEGIN;")
	for i := range list {
		pick := func(n int) string { return words[(i*7+n*n*3+i/31)%len(words)] }
		text := fmt.Sprintf("Reads the %s and the %s of a %s, and what its %s costs at place %d.", pick(1), pick(2), pick(3), pick(4), i)
		list[i] = entry{fmt.Sprintf("api-%05d", i), pick(5) + " " + pick(6), text, []string{pick(7)}, []string{"api.example.com"}, "none", "https://api.example.com/openapi.json"}
		fmt.Fprintf(table, "INSERT INTO apis VALUES ('%s', '%s %s %s');\n", list[i].Name, list[i].Title, list[i].Tags[0], text)
	}
	fmt.Fprintln(table, "COMMIT;")
	raw, err := json.Marshal(list)
	figures.Check(err)
	_, err = b.Config.Set(ctx, config.SetParams{Values: map[string]any{"discovery.online": true}})
	figures.Check(err)
	figures.Check(b.DB.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO discovery_catalog (id, user_id, kind, location, entries, signature, read_at, created_at) VALUES (?1, ?2, 'list', 'https://example.com/list.json', ?3, x'', ?4, ?4)`, storage.NewID(), b.LocalUser(), json.RawMessage(raw), tx.Now)
		return err
	}))
	search := func(query string) []discovery.Candidate {
		r, err := b.Discovery.Search(ctx, discovery.SearchParams{Query: query, Sources: []string{"directory"}})
		figures.Check(err)
		if len(r.Results) == 0 || len(r.Skipped) > 0 {
			figures.Check(fmt.Errorf("a search found %d entries: %+v", len(r.Results), r.Skipped))
		}
		return r.Results
	}
	byMeaning := func(c discovery.Candidate) bool { return slices.Contains(c.Why, "+meaning") }
	for began := time.Now(); !slices.ContainsFunc(search(list[0].Title+". "+list[0].Description), byMeaning); time.Sleep(time.Second) {
		if time.Since(began) > 10*time.Minute {
			figures.Check(errors.New("the entries have no vectors"))
		}
	}
	const rounds = 200
	var ours []time.Duration
	queries := &strings.Builder{}
	for i := range rounds {
		one, two := words[i%len(words)], words[(i*5+2)%len(words)]
		began := time.Now()
		search(one + " " + two)
		ours = append(ours, time.Since(began))
		fmt.Fprintf(queries, "SELECT name FROM apis WHERE apis MATCH '%s OR %s' ORDER BY rank LIMIT 10;\n", one, two)
	}
	dir, err := os.MkdirTemp("", "helix-bench-")
	figures.Check(err)
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "fts5.db")
	sqlite := func(input string) time.Duration {
		c := exec.Command("sqlite3", file)
		c.Stdin, c.Stderr = strings.NewReader(input), os.Stderr
		began := time.Now()
		figures.Check(c.Run())
		return time.Since(began)
	}
	sqlite(table.String())
	theirs := float64((sqlite(queries.String()) - sqlite("SELECT 1;")).Nanoseconds()) / 1e6 / rounds
	own := p50(ours) / 1000 // which sorts them
	figures.Print("search in 10,000 entries", own, "ms", own/theirs, "FTS5 in sqlite3")
	figures.Print("search in 10,000 entries, p95", float64(ours[len(ours)*95/100].Nanoseconds())/1e6, "ms", 0, "")
}
