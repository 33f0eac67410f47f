package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// sameID returns an export of conversations with the same id and the given texts.
func sameID(texts ...string) string {
	parts := make([]string, len(texts))
	for i, text := range texts {
		parts[i] = fmt.Sprintf(`{"uuid":"c","name":"T","chat_messages":[{"uuid":"m","sender":"human","text":%q}]}`, text)
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// Records with the same id and different content are numbered, copies are not. Reading again yields
// the same ids, even when continued in the middle.
func TestOneIDOfSeveralRecords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 2*maxTitle)
	for name, c := range map[string]struct {
		src  Source
		want []string
	}{
		"conversations": {bytesOf("c.json", sameID("one", "two", "one", "three", "two")), []string{"c", "c#2", "c", "c#3", "c#2"}},
		"another file":  {bytesOf("c.zip", zipOf(t, "a/conversations.json", sameID("one"), "b/conversations.json", sameID("two"))), []string{"c", "c#2"}},
		"memories":      {bytesOf("m.jsonl", `{"id":7,"text":"one"}`+"\n"+`{"id":7,"text":"two"}`+"\n"+`{"text":"three"}`+"\n"+`{"id":7,"text":"one","tags":["x"]}`+"\n"+`{"text":"four"}`), []string{"7", "7#2", "", "7#3", ""}},
		"called so":     {bytesOf("m.jsonl", `{"id":"a#2","text":"one"}`+"\n"+`{"id":"a","text":"two"}`+"\n"+`{"id":"a","text":"three"}`+"\n"+`{"id":"a#2","text":"four"}`), []string{"a#2", "a", "a#3", "a#2#2"}},
		"short ids":     {bytesOf("m.zip", zipOf(t, "a.jsonl", `{"id":1,"text":"one"}`, "b.jsonl", `{"id":1,"text":"two"}`, "c/a.jsonl", `{"id":1,"text":"three"}`)), []string{"1", "1", "1#2"}},
		"long ids":      {bytesOf("m.jsonl", `{"id":"`+long+`","text":"one"}`+"\n"+`{"id":"`+long+`","text":"two"}`), []string{long[:maxTitle], long[:maxTitle-2] + "#2"}},
	} {
		all, err := readAll(t, c.src, Options{})
		if err != nil {
			t.Fatal(name, err)
		}
		if got := idsOf(all); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for i, r := range all {
			rest, err := readAll(t, c.src, Options{From: r.After})
			if got := idsOf(rest); err != nil || !slices.Equal(got, c.want[i+1:]) {
				t.Errorf("%s: behind %d are %q, want %q: %v", name, i, got, c.want[i+1:], err)
			}
		}
	}
}

func idsOf(records []Record) (ids []string) {
	for _, r := range records {
		switch {
		case r.Conversation != nil:
			ids = append(ids, r.Conversation.ExternalID)
		case r.Memory != nil:
			ids = append(ids, r.Memory.ExternalID)
		}
	}
	return ids
}

// Many records may share an id without each taking longer.
func TestRecordsWithTheSameIDAreKept(t *testing.T) {
	t.Parallel()
	var s ids
	for i := range 200_000 {
		rec := Record{Memory: &Memory{ExternalID: "everybody", Content: fmt.Sprint(i)}}
		if s.makeUnique(&rec, ""); i > 0 && rec.Memory.ExternalID != fmt.Sprintf("everybody#%d", i+1) {
			t.Fatalf("record %d is %q", i, rec.Memory.ExternalID)
		}
	}
}
