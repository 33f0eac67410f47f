package agent

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/providers"
)

// randomLog folds a random log of a session: inputs with and without files, turns with calls,
// results, steering, joined inputs, failures and cancellations. check is called with each state.
func randomLog(rnd *rand.Rand, window int, check func(s *State)) *State {
	s := &State{}
	log(s, uuid.Nil, &created{Mode: ModeAsk})
	text := func(most int) string { return strings.Repeat("word ", 1+rnd.IntN(most)) }
	say := func(mode string) uuid.UUID {
		id := uuid.New()
		in := &input{Text: text(200), QueueMode: mode, Attended: true}
		for n := range rnd.IntN(3) {
			in.Files = append(in.Files, Attachment{Blob: strings.Repeat(fmt.Sprint(n), 64), Name: "a.png", Mime: []string{"image/png", "text/plain"}[n%2], Text: text(100), Bytes: 10})
		}
		log(s, id, in)
		check(s)
		return id
	}
	for range 3 + rnd.IntN(25) {
		id, joined := say(QueueFollowup), []uuid.UUID{}
		if rnd.IntN(3) == 0 {
			joined = append(joined, say(QueueCollect))
		}
		log(s, id, &turnStarted{Window: window, Output: 500, Block: "Now.", Joined: joined})
		check(s)
		for step := range rnd.IntN(4) {
			b := replyOf(providers.TextPart(text(100)))
			for n := range rnd.IntN(4) {
				b.Parts = append(b.Parts, callOf(fmt.Sprint(id, step, n), "t", `{"a":"`+text(50)+`"}`))
			}
			log(s, id, &callStarted{Step: step + 1}, b)
			check(s)
			if s.Turn.Phase != phaseTools {
				break
			}
			for _, c := range append([]callState{}, s.Turn.Calls...) {
				if rnd.IntN(12) == 0 { // the turn ends before its result
					break
				}
				log(s, id, &toolOutcome{CallID: c.ID, Status: statusDone, Text: text(600)})
				check(s)
			}
			if s.Turn.Phase == phaseTools {
				break
			}
			if rnd.IntN(5) == 0 {
				log(s, id, &steered{Turns: []uuid.UUID{say(QueueSteer)}})
				check(s)
			}
		}
		log(s, id, &turnFinished{State: []string{Completed, Canceled, Failed}[rnd.IntN(3)]})
		check(s)
	}
	return s
}

// In any session, a request contains consecutive whole exchanges up to the last one; each call is
// followed by exactly one result; it begins with an input; and it fits the window unless the last
// exchange alone does not.
func TestPlansOfRandomSessions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		window := 4000 + rnd.IntN(30_000)
		randomLog(rnd, window, func(s *State) {
			if len(s.Queue) > 3 || s.Turn != nil && len(s.Exchanges) == 0 {
				t.Fatalf("seed %d: %+v", seed, s)
			}
			if s.Turn == nil || s.Turn.Phase != phasePlan {
				return
			}
			q, left := s.plan()
			want := 0
			for _, x := range s.Exchanges[left:] {
				want += 1 + len(x.Messages)
			}
			if len(q.Messages) != want || q.Messages[0].Role != providers.User {
				t.Fatalf("seed %d: %d messages of %d exchanges, want %d", seed, len(q.Messages), len(s.Exchanges)-left, want)
			}
			open := map[string]bool{}
			for _, m := range q.Messages {
				for _, p := range m.Parts {
					switch p.Kind {
					case providers.PartToolCall:
						open[p.ID] = true
					case providers.PartToolResult:
						if !open[p.ID] {
							t.Fatalf("seed %d: a result without its call", seed)
						}
						delete(open, p.ID)
					}
				}
			}
			if len(open) > 0 {
				t.Fatalf("seed %d: calls without results", seed)
			}
			used := estimateMessages(q.Messages) + estimate(rules) + safetyMargin + int64(s.Turn.Output)
			if left < len(s.Exchanges)-1 && used > int64(window) {
				t.Fatalf("seed %d: %d tokens in a window of %d", seed, used, window)
			}
			again, _ := s.plan()
			a, _ := requestHash(q)
			if b, _ := requestHash(again); a != b {
				t.Fatalf("seed %d: the same state gives two requests", seed)
			}
		})
	}
}

// In successive turns the request begins with the same bytes, up to the exchange before the last,
// while time and memories change.
func TestPrefixIsTheSameFromTurnToTurn(t *testing.T) {
	t.Parallel()
	s := &State{}
	log(s, uuid.Nil, &created{Mode: ModeAsk})
	var before []providers.Message
	for n := range 100 {
		id := uuid.New()
		log(s, id, &input{Text: fmt.Sprint("Question ", n), Files: []Attachment{{Blob: strings.Repeat("a", 64), Name: "a.png", Mime: "image/png"}}})
		log(s, id, &turnStarted{Window: 1 << 20, Block: fmt.Sprint("Now: ", n, ". Memories: ", n*n)})
		q, _ := s.plan()
		for i, m := range before {
			a, _ := json.Marshal(m)
			if b, _ := json.Marshal(q.Messages[i]); string(a) != string(b) {
				t.Fatalf("turn %d: message %d is %s, was %s", n, i, b, a)
			}
		}
		before = q.Messages[:len(q.Messages)-1] // the last message holds the changing text
		log(s, id, &callStarted{Step: 1}, replyOf(providers.TextPart(fmt.Sprint("Answer ", n))), &turnFinished{State: Completed, Reason: StopAnswer})
	}
}

// Texts of any script are cut between characters, and never grow.
func TestTextsAreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"a", "é", "नमस्ते", "👩‍👩‍👧‍👦", "e\u0301", "日本", "\u202e\u200b"} {
		long := strings.Repeat(unit, 20_000/len(unit)+1)
		for _, most := range []int{0, 1, 2, 3, 5, 240, toolOutputMax, toolOutputMax + 1, len(long), len(long) + 1} {
			cut, was := clip(long, most)
			if !utf8.ValidString(cut) || len(cut) > most || was != (len(long) > most) || !strings.HasPrefix(long, cut) {
				t.Errorf("%q cut to %d: %d bytes, %v", unit, most, len(cut), was)
			}
			if short := headTail(long, most); !utf8.ValidString(short) {
				t.Errorf("%q shortened to %d is not UTF-8", unit, most)
			}
		}
		if title := titleOf([]Part{{Kind: PartText, Text: long}}); !utf8.ValidString(title) || utf8.RuneCountInString(title) > titleRunes+1 {
			t.Errorf("the title of %q: %q", unit, title)
		}
		if name := attachmentName(long); !utf8.ValidString(name) || len(name) > maxAttachmentName {
			t.Errorf("the name of %q: %q", unit, name)
		}
	}
}

// Whatever the log contains, an event is decoded, kept unchanged or rejected; none makes the fold
// panic.
func FuzzEvents(f *testing.F) {
	f.Add("input", 1, []byte(`{"text":"a","files":[{"blob":"b"}]}`))
	f.Add("turn_started", 1, []byte(`{"joined":["00000000-0000-0000-0000-000000000000"]}`))
	f.Add("reply", 1, []byte(`{"parts":[{"kind":"tool_call","id":"x"}]}`))
	f.Add("from_the_future", 2, []byte(`[]`))
	f.Fuzz(func(t *testing.T, typ string, version int, raw []byte) {
		body, err := decodePayload(typ, version, raw)
		if err != nil {
			if k := fault.As(err).Kind; k != fault.Conflict && k != fault.Internal {
				t.Fatal(err)
			}
			return
		}
		s, turn := begun(Budget{})
		s.apply(Event{Seq: 9, Turn: turn, At: time.Unix(1, 0), Body: body})
		s.todo()
		if s.Turn != nil {
			s.plan()
		}
	})
}

// Front matter never makes the list of documents fail.
func FuzzFrontMatter(f *testing.F) {
	f.Add("---\nname: a\ndescription: b\nrequires: [x]\n---\nText")
	f.Add("---\n&a [*a]\n---")
	f.Add("\xef\xbb\xbf---\r\nname: a\r\n---\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		d := &skillDoc{text: text}
		d.parse("a")
		if !d.invalid() && (d.Name != "a" || d.Description == "" || len(d.Description) > 4*1024) {
			t.Fatalf("%+v", d.SkillFront)
		}
	})
}
