package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/memory"
	"helix/backend/memory/search"
)

// pageFlags are the flags of paged lists.
type pageFlags struct {
	Query  string `help:"Words in the title."`
	Trash  bool   `help:"Show the trash."`
	Limit  int    `default:"50"`
	Offset int    `default:"0"`
}

type memoryConversationsCmd struct {
	ID string `arg:"" optional:"" param:"-" help:"Show this conversation; ID#N starts around turn N."`
	pageFlags
}

func (m *memoryConversationsCmd) Run(c *command) error {
	if m.ID != "" {
		p, err := m.place(m.ID)
		if err != nil {
			return err
		}
		return show(c, "memory.conversation", p, c.printConversation)
	}
	return answer(c, "memory.conversations", func(r memory.ConversationsResult) {
		list(c, r.Conversations, "No conversations. Import a history: `helix memory import PATH`.", []string{"ID", "BEGAN", "SOURCE", "TURNS", "TITLE"}, func(v memory.Conversation) []string {
			return []string{v.ID.String(), memoryTime(v.StartedAt, v.CreatedAt), v.Source, fmt.Sprint(v.Turns), cut(first(v.Title, strings.Join(v.Participants, ", ")), 60)}
		})
	})
}

// place returns the request for a page of one conversation or document.
func (f pageFlags) place(ref string) (map[string]any, error) {
	id, place, at := strings.Cut(ref, "#")
	if _, err := uuid.Parse(id); err != nil {
		return nil, fault.Invalidf("%q isn't an ID.", id)
	}
	p := map[string]any{"id": id, "limit": f.Limit, "offset": f.Offset}
	if at {
		seq, err := strconv.ParseInt(place, 10, 64)
		if err != nil || seq < 0 {
			return nil, fault.Invalidf("%q isn't a location such as ID#12.", ref)
		}
		p["aroundSeq"] = seq
	}
	return p, nil
}

func (c *command) printConversation(r memory.ConversationResult) {
	v := r.Conversation
	c.fields("id", v.ID.String(), "title", v.Title, "began", memoryTime(v.StartedAt, v.CreatedAt), "source", v.Source, "with", strings.Join(v.Participants, ", "),
		"tags", strings.Join(v.Tags, " "), "turns", fmt.Sprint(r.Total), "untrusted", yes(v.Untrusted))
	fmt.Fprintln(c.env.Stdout)
	for _, t := range r.Turns {
		c.printTurn(t)
	}
}

func (c *command) printTurn(t memory.Turn) {
	head := fmt.Sprintf("#%d %s", t.Seq, first(t.Speaker, t.Role))
	if t.OccurredAt != nil {
		head += " · " + t.OccurredAt.Local().Format("2006-01-02 15:04")
	}
	if t.TurnID != "" {
		head += " · " + t.TurnID
	}
	fmt.Fprintln(c.env.Stdout, plain(head))
	for line := range strings.SplitSeq(t.Text, "\n") {
		fmt.Fprintln(c.env.Stdout, "  "+plain(line))
	}
}

type memoryDocumentsCmd struct {
	ID string `arg:"" optional:"" param:"-" help:"Show this document; ID#N starts around part N."`
	pageFlags
}

func (m *memoryDocumentsCmd) Run(c *command) error {
	if m.ID != "" {
		p, err := m.place(m.ID)
		if err != nil {
			return err
		}
		return show(c, "memory.document", p, c.printDocument)
	}
	return answer(c, "memory.list_documents", func(r memory.DocumentsResult) {
		list(c, r.Documents, "No documents. Import a folder of notes: `helix memory import PATH`.", []string{"ID", "WHEN", "SOURCE", "PARTS", "TITLE", "FROM"}, func(d memory.Document) []string {
			return []string{d.ID.String(), memoryTime(d.OccurredAt, d.UpdatedAt), d.Source, fmt.Sprint(d.Chunks), cut(d.Title, 50), cut(d.SourceURI, 60)}
		})
	})
}

func (c *command) printDocument(r memory.DocumentView) {
	d := r.Document
	c.fields("id", d.ID.String(), "title", d.Title, "from", d.SourceURI, "kind", d.Mime, "tags", strings.Join(d.Tags, " "), "parts", fmt.Sprint(r.Total),
		"changed", nextTime(&d.UpdatedAt), "untrusted", yes(d.Untrusted))
	heading := ""
	for _, k := range r.Chunks {
		if k.Heading != heading {
			heading = k.Heading
			fmt.Fprintf(c.env.Stdout, "\n%s\n", plain(heading))
		}
		fmt.Fprintf(c.env.Stdout, "\n#%d\n", k.Seq)
		c.printText(k.Text)
	}
}

// showPlace prints a conversation or a document, around a position if one is given.
func (c *command) showPlace(id string, seq *int64, around int) error {
	f := pageFlags{Limit: 50}
	ref := id
	if seq != nil {
		f.Limit = 2*min(max(around, 0), 99) + 1
		ref += "#" + strconv.FormatInt(*seq, 10)
	}
	p, err := f.place(ref)
	if err != nil {
		return err
	}
	if err := show(c, "memory.conversation", p, c.printConversation); !fault.Is(err, fault.NotFound) {
		return err
	}
	if err := show(c, "memory.document", p, c.printDocument); !fault.Is(err, fault.NotFound) {
		return err
	}
	return fault.NotFoundf("No memory, conversation or document has the ID %s.", id)
}

type memoryStatsCmd struct{}

func (memoryStatsCmd) Run(c *command) error {
	var e memory.EmbeddingStatus
	if !c.JSON {
		if _, err := c.call("memory.embedding_status", struct{}{}, &e); err != nil {
			return err
		}
	}
	return show(c, "memory.stats", struct{}{}, func(r memory.Stats) {
		model := first(e.ModelID, "none")
		if !e.Available {
			model = first(e.Reason, "not available")
		}
		c.fields("memories", fmt.Sprint(r.Memories), "conversations", fmt.Sprintf("%d with %d turns", r.Conversations, r.Turns),
			"documents", fmt.Sprintf("%d with %d parts", r.Documents, r.Chunks), "trash", fmt.Sprint(r.Trash),
			"by meaning", strings.TrimPrefix(embedded(e), "Semantic search: "), "encoder", model,
			"keyword index", size(r.IndexBytes), "vectors", size(r.VectorBytes)+" in memory",
			"types", counts(r.ByType), "layers", counts(r.ByLayer), "sources", counts(r.BySource), "tags", counts(r.Tags), "months", counts(r.ByMonth))
	})
}

// counts prints the first counts of a list in one line.
func counts(list []search.Count) string {
	const most = 12
	out := []string{}
	for _, n := range list {
		if len(out) == most {
			out = append(out, "…")
			break
		}
		out = append(out, fmt.Sprintf("%s %d", first(n.Value, "none"), n.Count))
	}
	return strings.Join(out, ", ")
}
