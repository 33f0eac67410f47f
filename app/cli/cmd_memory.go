package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/memory/search"
)

type memoryCmd struct {
	Import  memoryImportCmd  `cmd:"" help:"Import chats, notes and other texts."`
	Search  memorySearchCmd  `cmd:"" help:"Search memories, conversations and documents."`
	Add     memoryAddCmd     `cmd:"" help:"Add a memory."`
	List    memoryListCmd    `cmd:"" help:"List memories."`
	Show    memoryShowCmd    `cmd:"" help:"Show a memory, or a conversation or document around a result."`
	Edit    memoryEditCmd    `cmd:"" help:"Edit a memory in $EDITOR or with flags."`
	Delete  memoryDeleteCmd  `cmd:"" aliases:"rm,remove" help:"Move memories to the trash; restore brings them back for 30 days."`
	Restore memoryRestoreCmd `cmd:"" help:"Restore memories from the trash."`
	Undo    struct {
		Token string `arg:"" param:"undoToken" help:"Token printed by the action."`
	} `cmd:"" help:"Undo an action by its token." call:"memory.undo" say:"$count unchanged."`
	Pin           memoryPinCmd           `cmd:"" help:"Pin a memory."`
	History       memoryHistoryCmd       `cmd:"" help:"Show the edit history of a memory."`
	Conversations memoryConversationsCmd `cmd:"" aliases:"conversation" help:"List conversations, or read one."`
	Documents     memoryDocumentsCmd     `cmd:"" aliases:"document" help:"List documents, or read one."`
	Imports       memoryImportsCmd       `cmd:"" help:"List imports and their results."`
	Watch         memoryWatchCmd         `cmd:"" help:"Import folders of notes again whenever they change."`
	Export        memoryExportCmd        `cmd:"" help:"Export memories to a file."`
	Stats         memoryStatsCmd         `cmd:"" help:"Show counts and the state of semantic search."`
	Reembed       memoryReembedCmd       `cmd:"" help:"Rebuild or complete the index of semantic search."`
	BenchLocomo   memoryLocomoCmd        `cmd:"" name:"bench-locomo" help:"Measure search quality on the LoCoMo conversations."`
}

// memoryFilterFlags select what is searched, listed or exported.
type memoryFilterFlags struct {
	From   string   `help:"Earliest date or time, such as 2023-05-01 or 2023-05." placeholder:"WHEN"`
	To     string   `help:"Latest date or time." placeholder:"WHEN"`
	Layer  []int    `help:"Layer from 1 to 7; may be repeated."`
	Tag    []string `help:"With this tag; repeat to require several." sep:"none"`
	NoTag  []string `help:"Without this tag." sep:"none"`
	Type   []string `help:"episodic, semantic or procedural."`
	Source []string `help:"Source, such as manual, chatgpt or markdown."`
	Pinned bool     `help:"Only pinned items."`
	Kind   []string `help:"memory, turn (of a conversation) or chunk (of a document)."`
}

func (f memoryFilterFlags) filters() (map[string]any, error) {
	p := map[string]any{}
	for field, text := range map[string]string{"from": f.From, "to": f.To} {
		if text == "" {
			continue
		}
		from, until, err := period(text)
		if err != nil {
			return nil, err
		}
		if p[field] = from; field == "to" {
			p[field] = until
		}
	}
	for field, list := range map[string][]string{"tagsAll": f.Tag, "tagsNone": f.NoTag, "types": f.Type, "sources": f.Source, "kinds": f.Kind} {
		if len(list) > 0 {
			p[field] = list
		}
	}
	if len(f.Layer) > 0 {
		p["layers"] = f.Layer
	}
	if f.Pinned {
		p["pinned"] = true
	}
	return p, nil
}

// period parses a day, month, year or moment in local time, and returns its start and end.
func period(text string) (from, until time.Time, err error) {
	for _, l := range []struct {
		layout              string
		years, months, days int
	}{{"2006", 1, 0, 0}, {"2006-01", 0, 1, 0}, {time.DateOnly, 0, 0, 1}} {
		if t, err := time.ParseInLocation(l.layout, text, time.Local); err == nil {
			return t, t.AddDate(l.years, l.months, l.days), nil
		}
	}
	t, err := moment(text)
	if err != nil {
		return t, t, fault.Invalidf("%q isn't a day or time such as 2023-05-01, 2023-05 or 2023-05-01T09:00:00Z.", text)
	}
	return t, t.Add(time.Microsecond), nil // the finest resolution
}

type memorySearchCmd struct {
	Query []string `arg:"" help:"Search text; phrases in double quotes match exactly."`
	K     int      `short:"k" default:"10" help:"Maximum number of results, 1 to 100."`
	Mode  string   `default:"hybrid" enum:"hybrid,keyword,vector" help:"Search mode (${enum})."`
	memoryFilterFlags
	Explain bool `help:"Explain each result, with its context."`
	MMR     bool `name:"mmr" help:"Prefer varied results (MMR)."`
}

func (s *memorySearchCmd) Run(c *command) error {
	if s.K == 0 { // the backend has a default
		return fault.Invalidf("-k must be 1 to 100.")
	}
	p := map[string]any{"query": strings.Join(s.Query, " "), "limit": s.K, "mode": s.Mode}
	filters, err := s.filters()
	if err != nil {
		return err
	}
	if len(filters) > 0 {
		p["filters"] = filters
	}
	if s.MMR {
		p["mmr"] = map[string]any{}
	}
	method := "memory.search"
	if s.Explain {
		method = "memory.search_enhanced"
	}
	c.memoryWork = true // makes recently stored texts searchable by meaning
	return show(c, method, p, func(r search.Result) {
		switch r.Degraded {
		case "no_vectors":
			c.say("Keyword search only: this build doesn't include the sentence encoder.")
		case "reindexing":
			c.say("Semantic search isn't complete yet. See `helix memory stats`.")
		}
		if len(r.Results) == 0 {
			c.say("No results.")
			return
		}
		for i, h := range r.Results {
			c.printHit(i+1, h, s.Explain)
		}
	})
}

// printHit prints one result: its source, its text, and the reference for `show`.
func (c *command) printHit(n int, h search.Hit, explain bool) {
	head := []string{h.Kind, memoryTime(h.OccurredAt, h.CreatedAt), h.Source}
	for _, more := range []string{h.Speaker, cut(h.Title, 60)} {
		if more != "" {
			head = append(head, more)
		}
	}
	if len(h.Tags) > 0 {
		head = append(head, "#"+strings.Join(h.Tags, " #"))
	}
	if h.Pinned {
		head = append(head, "pinned")
	}
	fmt.Fprintf(c.env.Stdout, "%d. %s\n", n, plain(strings.Join(head, " · ")))
	if !explain || len(h.Context) == 0 {
		fmt.Fprintf(c.env.Stdout, "   %s\n", plain(h.Snippet))
	} else {
		c.printContext(h)
	}
	fmt.Fprintf(c.env.Stdout, "   %s\n", plain(memoryReference(h)))
	if explain && h.Parts != nil {
		fmt.Fprintf(c.env.Stdout, "   %s\n", why(h))
	}
}

// printContext prints the context of a hit, in order, with the hit at its position.
func (c *command) printContext(h search.Hit) {
	at := int64(-1)
	if len(h.Evidence) > 0 && h.Evidence[0].Seq != nil {
		at = *h.Evidence[0].Seq
	}
	line := func(mark, speaker, text string) {
		if speaker != "" {
			text = speaker + ": " + text
		}
		fmt.Fprintf(c.env.Stdout, "   %s %s\n", mark, plain(text))
	}
	done := false
	for _, n := range h.Context {
		if n.ID == h.ID {
			continue
		}
		if n.Seq > at && !done {
			line(">", h.Speaker, h.Snippet)
			done = true
		}
		line("|", n.Speaker, cut(n.Text, 300))
	}
	if !done {
		line(">", h.Speaker, h.Snippet)
	}
}

// memoryReference returns the argument for `memory show`: a memory's id, or an id and a position in
// it.
func memoryReference(h search.Hit) string {
	ref := h.ID.String()
	for _, e := range h.Evidence {
		switch {
		case e.Seq == nil:
			continue
		case e.ConversationID != nil:
			ref = fmt.Sprintf("%s#%d", e.ConversationID, *e.Seq)
		case e.DocumentID != nil:
			ref = fmt.Sprintf("%s#%d", e.DocumentID, *e.Seq)
		default:
			continue
		}
		if e.TurnID != "" {
			ref += " (" + e.TurnID + ")"
		}
		break
	}
	return ref
}

func why(h search.Hit) string {
	p := h.Parts
	out := []string{fmt.Sprintf("score %.4f", h.Score)}
	if p.BM25Rank != nil {
		out = append(out, fmt.Sprintf("keywords: rank %d", *p.BM25Rank))
	}
	if p.VectorRank != nil {
		out = append(out, fmt.Sprintf("meaning: rank %d", *p.VectorRank))
	}
	if p.Cosine != nil {
		out = append(out, fmt.Sprintf("cosine %.3f", *p.Cosine))
	}
	if p.Window > 0 {
		out = append(out, fmt.Sprintf("neighbors %.4f", p.Window))
	}
	for _, f := range []struct {
		name string
		v    float64
	}{{"recency", p.Recency}, {"salience", p.Salience}, {"retention", p.Retention}, {"pinned", p.Pinned}} {
		if f.v != 0 && f.v != 1 {
			out = append(out, fmt.Sprintf("%s ×%.3f", f.name, f.v))
		}
	}
	return strings.Join(out, ", ")
}

// memoryTime returns when something happened, or else when it was stored.
func memoryTime(at *time.Time, created time.Time) string {
	if at == nil {
		at = &created
	}
	return at.Local().Format("2006-01-02 15:04")
}

type memoryAddCmd struct {
	Text     string   `arg:"" optional:"" help:"The text; - or none reads standard input."`
	Type     string   `default:"episodic" enum:"episodic,semantic,procedural" help:"Type of memory (${enum})."`
	Layer    *int     `help:"1 to 7."`
	Tag      []string `help:"A tag; may be repeated." sep:"none"`
	At       string   `help:"When it happened. Default: no date." placeholder:"WHEN"`
	Salience string   `help:"critical, high, medium or low."`
	Pin      bool     `help:"Pin it."`
	Again    bool     `help:"Add it even if the same text exists."`
}

func (a *memoryAddCmd) Run(c *command) error {
	text, err := c.text(a.Text)
	if err != nil {
		return err
	}
	p := map[string]any{"content": text, "type": a.Type}
	setIf(p, "salienceTier", a.Salience)
	if a.Layer != nil {
		p["layer"] = *a.Layer
	}
	if len(a.Tag) > 0 {
		p["tags"] = a.Tag
	}
	if a.Pin {
		p["pinned"] = true
	}
	if a.Again {
		p["dedupe"] = false
	}
	if a.At != "" {
		if p["occurredAt"], _, err = period(a.At); err != nil {
			return err
		}
	}
	c.memoryWork = true
	if err := show(c, "memory.add", p, func(r memory.AddResult) {
		switch {
		case r.Item == nil:
			c.say("This text was recalled from memory, so it was not stored again.")
			return
		case r.Deduplicated:
			c.say("This text already exists.")
		default:
			c.say("Stored.")
		}
		fmt.Fprintln(c.env.Stdout, r.Item.ID)
	}); err != nil {
		return err
	}
	c.settle(3 * time.Second)
	return nil
}

const maxMemoryInput = 1 << 20 // the backend rejects larger memories with an explanation

// text returns the argument, or standard input for "-" and "".
func (c *command) text(arg string) (string, error) {
	if arg != "" && arg != "-" {
		return arg, nil
	}
	if isTerminal(c.env.Stdin) {
		c.say("(press Enter, then Ctrl-D to finish)")
	}
	b, err := io.ReadAll(io.LimitReader(c.env.Stdin, maxMemoryInput))
	if err != nil {
		return "", fault.Invalidf("Couldn't read standard input.").WithCause(err)
	}
	return strings.TrimRight(strings.TrimPrefix(string(b), "\ufeff"), "\r\n"), nil // a byte order mark is not part of the text
}

type memoryListCmd struct {
	memoryFilterFlags
	Sort   string `default:"recent" enum:"recent,occurred,salience,retention" help:"Sort order (${enum})."`
	Trash  bool   `help:"Show the trash."`
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
	Cursor string `help:"Continue from this cursor."`
}

func (l *memoryListCmd) Run(c *command) error {
	p := map[string]any{"sort": l.Sort, "limit": l.Limit, "offset": l.Offset, "trash": l.Trash}
	setIf(p, "cursor", l.Cursor)
	filters, err := l.filters()
	if err != nil {
		return err
	}
	if len(filters) > 0 {
		p["filters"] = filters
	}
	return show(c, "memory.list", p, func(r memory.ListResult) {
		if len(r.Items) == 0 {
			switch {
			case l.Trash:
				c.say("The trash is empty.")
			case len(filters) > 0:
				c.say("No matching memories.")
			default:
				c.say("No memories. Import a history: `helix memory import PATH`, or add one: `helix memory add TEXT`.")
			}
			return
		}
		list(c, r.Items, "", []string{"ID", "WHEN", "TYPE", "SOURCE", "TAGS", "TEXT"}, func(m memory.Item) []string {
			return []string{m.ID.String(), memoryTime(m.OccurredAt, m.CreatedAt), m.Type, m.Source, strings.Join(m.Tags, " "), cut(plain(m.Content), 70)}
		})
		if r.NextCursor != "" {
			c.say("More: --cursor %s", r.NextCursor)
		}
	})
}

type memoryShowCmd struct {
	Ref    string `arg:"" help:"ID of a memory, conversation or document; ID#N is position N in it."`
	Around int    `default:"3" help:"With ID#N: how many neighbors on each side."`
}

func (s *memoryShowCmd) Run(c *command) error {
	id, place, ok := strings.Cut(s.Ref, "#")
	if ok {
		seq, err := strconv.ParseInt(place, 10, 64)
		if err != nil || seq < 0 {
			return fault.Invalidf("%q isn't a location such as ID#12.", s.Ref)
		}
		return c.showPlace(id, &seq, s.Around)
	}
	err := show(c, "memory.get", map[string]any{"id": id, "touch": true}, c.printMemory)
	if _, perr := uuid.Parse(id); perr == nil && fault.Is(err, fault.NotFound) {
		return c.showPlace(id, nil, 0)
	}
	return err
}

func (c *command) printMemory(m memory.Item) {
	layer := ""
	if m.Layer > 0 {
		layer = strconv.Itoa(m.Layer)
	}
	c.fields("id", m.ID.String(), "when", memoryTime(m.OccurredAt, m.CreatedAt), "type", m.Type, "layer", layer, "tags", strings.Join(m.Tags, " "),
		"source", strings.TrimSpace(m.Source+" "+m.SourceRef), "salience", m.SalienceTier, "pinned", yes(m.Pinned), "untrusted", yes(m.Untrusted),
		"by meaning", m.EmbeddingState, "version", strconv.FormatInt(m.Version, 10), "deleted", nextTime(m.DeletedAt))
	fmt.Fprintln(c.env.Stdout)
	c.printText(m.Content)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

// printText prints a text of several lines, made safe for a terminal.
func (c *command) printText(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintln(c.env.Stdout, plain(strings.TrimRight(line, "\r")))
	}
}
