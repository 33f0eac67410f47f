// Package importertest generates exports of other programs, of any size, for tests, benchmarks and
// demonstrations. The same options always produce the same bytes.
package importertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"
)

// Options determine the size of an export. The zero value is one conversation of 20 turns.
type Options struct {
	Conversations int       // 0: as many as Bytes needs, at least 1
	Bytes         int64     // alternatively: stop after the first conversation that ends beyond this size
	Turns         int       // visible turns per conversation; 0 is 20
	Words         int       // per turn, on average; 0 is 60
	Seed          uint64    // determines texts and ids
	Start         time.Time // of the first conversation; zero is 2023-01-01
}

// Wrote describes a generated export.
type Wrote struct {
	Conversations int
	Turns         int // visible to a reader of the export
	Bytes         int64
}

// words is a small vocabulary. Words are drawn from it with a skewed distribution, as in natural language.
var words = strings.Fields(`the a of to and in is it that for on with as was at be this have from or by we you not are but
what all were when there can an your which their time will how about if out many then them write would like so these her long make
thing see him two has look more day could go come did number sound no most people over know water than call first who may down side
been now find any new work part take get place made live where after back little only round man year came show every good me give our
under name very through just form sentence great think say help low line differ turn cause much mean before move right boy old too
same tell does set three want air well also play small end put home read hand port large spell add even land here must big high such
follow act why ask men change went light kind off need house picture try us again animal point mother world near build self earth
father restaurant garden train bicycle letter kitchen harbour bread mountain winter library ticket guitar doctor passport festival
market bridge island painting recipe teacher candle window airport museum birthday coffee forest neighbour lantern pottery river`)

type writer struct {
	*bufio.Writer
	n   int64
	rng *rand.Rand
}

func (w *writer) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.n += int64(n)
	return n, err
}

// text writes sentences with about n words.
func (w *writer) text(n int) string {
	var b strings.Builder
	n = max(1, n/2+w.rng.IntN(n+1))
	for i := range n {
		word := words[int(float64(len(words))*w.rng.Float64()*w.rng.Float64())]
		switch {
		case i == 0:
			word = strings.ToUpper(word[:1]) + word[1:]
		case i%12 == 0:
			b.WriteString(". ")
			word = strings.ToUpper(word[:1]) + word[1:]
		default:
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	b.WriteByte('.')
	return b.String()
}

func (w *writer) id() string {
	a, b := w.rng.Uint64(), w.rng.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", uint32(a), uint16(a>>32), a>>52, b>>52, b&0xffffffffffff)
}

// ChatGPT writes conversations.json as ChatGPT exports it: trees of messages with a hidden system
// message at the root, occasional tool calls with their results, and regenerated answers, of which
// only one is on the visible branch.
func ChatGPT(out io.Writer, o Options) (Wrote, error) {
	w := &writer{Writer: bufio.NewWriterSize(out, 1<<20), rng: rand.New(rand.NewPCG(o.Seed, 0x9e3779b97f4a7c15))}
	if o.Turns == 0 {
		o.Turns = 20
	}
	if o.Words == 0 {
		o.Words = 60
	}
	if o.Start.IsZero() {
		o.Start = time.Date(2023, 1, 1, 8, 0, 0, 0, time.UTC)
	}
	var did Wrote
	fmt.Fprint(w, "[")
	for i := 0; i == 0 || i < o.Conversations || o.Conversations == 0 && w.n < o.Bytes; i++ {
		if i > 0 {
			fmt.Fprint(w, ", ")
		}
		if err := w.conversation(i, o); err != nil {
			return did, err
		}
		did.Conversations++
		did.Turns += o.Turns
	}
	fmt.Fprint(w, "]")
	did.Bytes = w.n
	return did, w.Flush()
}

type object = map[string]any

func (w *writer) conversation(number int, o Options) error {
	at := float64(o.Start.Unix() + int64(number)*7_000)
	mapping := object{}
	last := ""
	node := func(parent, role string, content object, more object) string {
		id := w.id()
		at += 1 + float64(w.rng.IntN(90_000))/1000
		metadata := object{"timestamp_": "absolute"}
		for k, v := range more {
			metadata[k] = v
		}
		message := object{"id": id, "author": object{"role": role, "name": nil, "metadata": object{}}, "create_time": at, "update_time": nil,
			"content": content, "status": "finished_successfully", "end_turn": true, "weight": 1.0, "metadata": metadata, "recipient": "all"}
		mapping[id] = object{"id": id, "message": message, "parent": parent, "children": []string{}}
		if p, ok := mapping[parent].(object); ok {
			p["children"] = append(p["children"].([]string), id)
		}
		return id
	}
	text := func(s string) object { return object{"content_type": "text", "parts": []string{s}} }

	root := w.id()
	mapping[root] = object{"id": root, "message": nil, "parent": nil, "children": []string{}}
	last = node(root, "system", text(""), object{"is_visually_hidden_from_conversation": true})
	for turn := range o.Turns {
		if turn%2 == 0 {
			last = node(last, "user", text(w.text(o.Words/2)), nil)
			continue
		}
		switch {
		case turn%10 == 5: // a tool call before the answer
			call := node(last, "assistant", object{"content_type": "code", "language": "unknown", "text": "search(\"" + w.text(3) + "\")"}, object{"model_slug": "gpt-4"})
			mapping[call].(object)["message"].(object)["recipient"] = "browser"
			last = node(call, "tool", text(w.text(o.Words)), nil)
		case turn%10 == 7: // a regenerated answer
			node(last, "assistant", text(w.text(o.Words)), object{"model_slug": "gpt-4"})
		}
		last = node(last, "assistant", text(w.text(o.Words*3/2)), object{"model_slug": "gpt-4"})
	}
	id := w.id()
	b, err := json.Marshal(object{"title": w.text(5), "create_time": at - 3600, "update_time": at, "mapping": mapping, "moderation_results": []any{},
		"current_node": last, "plugin_ids": nil, "conversation_id": id, "id": id, "conversation_template_id": nil, "is_archived": false})
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
