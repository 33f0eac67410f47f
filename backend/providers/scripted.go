package providers

import (
	"encoding/json"
	"iter"
	"os"
	"strings"

	"helix/backend/fault"
)

// script is the file of a scripted provider: replies to return in order. It replaces a service in
// tests and evaluations, and makes no calls.
type script struct {
	Replies []ScriptedReply `json:"replies"`
	next    int
}

// ScriptedReply is one answer: either its parts, or the recorded body of a wire.
type ScriptedReply struct {
	// Match must occur in the last message, if it is set.
	Match     string         `json:"match,omitempty"`
	Reasoning string         `json:"reasoning,omitempty"`
	Text      string         `json:"text,omitempty"`
	Calls     []ScriptedCall `json:"calls,omitempty"`
	Usage     Usage          `json:"usage,omitzero"`
	// Finish is stop, or tool_calls where there are calls.
	Finish string `json:"finish,omitempty"`
	// Wire and Body replay a recording.
	Wire string `json:"wire,omitempty"`
	Body string `json:"body,omitempty"`
	// Status and Message make the answer an error.
	Status  int    `json:"status,omitempty"`
	Message string `json:"message,omitempty"`
}

// ScriptedCall is a tool call of a ScriptedReply.
type ScriptedCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

// reply returns the next reply of a target's script.
func (r *Router) reply(t target, q Request) (ScriptedReply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.scripts[t.entry.BaseURL]
	if s == nil {
		text, err := os.ReadFile(t.entry.BaseURL)
		if err != nil {
			return ScriptedReply{}, fault.Unavailablef("Couldn't read the script of %s.", t.name).WithCause(err)
		}
		s = &script{}
		if err := json.Unmarshal(text, s); err != nil {
			return ScriptedReply{}, fault.Invalidf("The script of %s is not valid.", t.name).WithCause(err)
		}
		r.scripts[t.entry.BaseURL] = s
	}
	if s.next >= len(s.Replies) {
		return ScriptedReply{}, fault.Invalidf("The script of %s has no more replies.", t.name)
	}
	reply := s.Replies[s.next]
	if n := len(q.Messages); reply.Match != "" && (n == 0 || !strings.Contains(said(q.Messages[n-1]), reply.Match)) {
		return ScriptedReply{}, fault.Invalidf("Reply %d of the script of %s expects %q in the last message.", s.next+1, t.name, reply.Match)
	}
	s.next++
	return reply, nil
}

func said(m Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text)
		b.WriteByte('\n')
	}
	return b.String()
}

func (r *Router) scripted(t target, q Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		reply, err := r.reply(t, q)
		if err == nil && reply.Status >= 400 {
			err = t.named((&ServiceError{Status: reply.Status, Message: reply.Message}).fault(0))
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		if reply.Body != "" {
			for e, err := range Decode(reply.Wire, strings.NewReader(reply.Body), DecodeOptions{Provider: t.name, Model: t.model}) {
				if !yield(e, err) || err != nil {
					return
				}
			}
			return
		}
		a := assembler{newID: func() string { return "scripted" }, origin: Opaque{Provider: t.name, Model: t.model}}
		a.text(EventReasoning, 0, []byte(reply.Reasoning), false)
		for _, word := range strings.SplitAfter(reply.Text, " ") { // in pieces, as a service would
			a.text(EventText, 1, []byte(word), false)
		}
		for i, c := range reply.Calls {
			call, err := a.call(i, c.ID, c.Name, nil)
			if err != nil {
				yield(Event{}, err)
				return
			}
			call.wireID, call.name = c.ID, c.Name
			if err := a.args(call, c.Args); err != nil {
				yield(Event{}, err)
				return
			}
			a.finishCall(call)
		}
		u := reply.Usage
		if u == (Usage{}) {
			u = Usage{Input: roughTokens(q), Output: int64(len(reply.Text)+3) / 4}
		}
		a.count(u)
		reason := FinishStop
		if reply.Finish != "" {
			reason = reply.Finish
		}
		a.finish(reason, reason)
		a.closeAnswer()
		for _, e := range a.out {
			if !yield(e, nil) {
				return
			}
		}
	}
}
