package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// talkText is a short conversation of two friends over some months, as JSON lines.
var talkText = []struct{ at, text string }{
	{"2023-03-04T19:10:00Z", "Nora: We ate at the Blue Heron last night, down by the harbour. Best grilled fish of my life."},
	{"2023-03-04T19:12:00Z", "Ilan: You said the same about the noodle bar in March."},
	{"2023-04-11T08:00:00Z", "Nora: The landlord finally fixed the heating. Three weeks of cold showers are over."},
	{"2023-05-20T12:31:00Z", "Ilan: My daughter starts violin lessons in September, her teacher seems patient."},
	{"2023-06-02T21:45:00Z", "Nora: Boxes everywhere. The truck to Lisbon leaves on Friday at six."},
	{"2023-06-18T07:20:00Z", "Ilan: I ran ten kilometres without stopping for the first time."},
	{"2023-07-09T16:05:00Z", "Nora: The cat has discovered the balcony and refuses to come in."},
	{"2023-08-14T10:00:00Z", "Ilan: The bank raised the interest on our mortgage again."},
}

// question shares no word with the line that answers it.
const (
	question = "a place to go for seafood"
	answer   = "Blue Heron"
)

// memory imports a conversation and finds a line of it by meaning.
func (d *demo) memory() error {
	d.say("Import a conversation of two friends, as a file of JSON lines.")
	var b strings.Builder
	for _, l := range talkText {
		line, err := json.Marshal(map[string]string{"content": l.text, "occurredAt": l.at})
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	file := filepath.Join(d.dir, "friends.jsonl")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		return err
	}
	for i, want := range []string{fmt.Sprintf("%d added", len(talkText)), fmt.Sprintf("%d already imported", len(talkText))} {
		out, _, err := d.run("memory", "import", file, "--tag", "friends")
		if err != nil {
			return err
		}
		if !strings.Contains(out, want) {
			return fmt.Errorf("import %d gave %q, not %q", i+1, strings.TrimSpace(out), want)
		}
		_, counts, _ := strings.Cut(out, ": ")
		d.detail("%s", strings.TrimSpace(counts))
	}
	if err := d.embedded(); err != nil {
		return err
	}

	d.say(fmt.Sprintf("Ask for %q, words that nobody used.", question))
	var found struct {
		Results []struct {
			Snippet    string  `json:"snippet"`
			OccurredAt string  `json:"occurredAt"`
			Score      float64 `json:"score"`
		} `json:"results"`
		TookMs   float64 `json:"tookMs"`
		Degraded string  `json:"degraded"`
	}
	out, _, err := d.run("--json", "memory", "search", question, "-k", "3")
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return err
	}
	if found.Degraded != "" || len(found.Results) == 0 {
		return fmt.Errorf("search by meaning found %d lines (%s)", len(found.Results), found.Degraded)
	}
	for _, r := range found.Results {
		d.detail("%.10s  %s", r.OccurredAt, r.Snippet)
	}
	if !strings.Contains(found.Results[0].Snippet, answer) {
		return errors.New("the line about the restaurant is not the first")
	}
	d.detail("Found in %.1f ms, without a network.", found.TookMs)
	return nil
}

// embedded waits until everything that was imported can be found by meaning.
func (d *demo) embedded() error {
	for {
		var r struct{ Degraded string }
		if err := d.rpc(&r, "memory.search", map[string]any{"query": "harbour"}); err != nil {
			return err
		}
		switch r.Degraded {
		case "":
			return nil
		case "no_vectors":
			return errors.New("there is no sentence encoder in this build")
		}
		select {
		case <-d.ctx.Done():
			return fmt.Errorf("the vectors are not ready: %w", d.ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
