package agent

import (
	"fmt"
	"testing"
)

// Both ways to search, by the word index and, with private storage, in the messages themselves, return
// the newest messages first and those of one chat if asked.
func TestSearchReturnsTheNewestFirst(t *testing.T) {
	for _, private := range []bool{false, true} {
		t.Run(fmt.Sprintf("private %v", private), func(t *testing.T) {
			s, _, ctx := answering(t, Options{Private: private})
			if err := s.resume(ctx); err != nil {
				t.Fatal(err)
			}
			var chats []Session
			for i := range 2 {
				made, err := s.Create(ctx, CreateParams{})
				if err != nil {
					t.Fatal(err)
				}
				chats = append(chats, made.Session)
				for n := range 3 {
					sent, err := s.Send(ctx, SendParams{SessionID: made.Session.ID, Text: fmt.Sprintf("harbor harbor of chat%d, message%d", i, n)})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := s.Wait(ctx, WaitParams{TurnID: sent.TurnID, WaitMs: 60_000}); err != nil {
						t.Fatal(err)
					}
				}
			}
			find := func(p SearchParams) []Hit {
				t.Helper()
				got, err := s.Search(ctx, p)
				if err != nil {
					t.Fatal(err)
				}
				for i, h := range got.Hits {
					if i > 0 && h.At.After(got.Hits[i-1].At) {
						t.Errorf("hit %d is newer than the one before: %+v", i, got.Hits)
					}
				}
				return got.Hits
			}
			if hits := find(SearchParams{Query: "harbor"}); len(hits) != 6 || hits[0].SessionID != chats[1].ID || hits[5].SessionID != chats[0].ID {
				t.Errorf("in all chats: %+v", hits)
			}
			if hits := find(SearchParams{Query: "harbor", Limit: 2}); len(hits) != 2 || hits[1].SessionID != chats[1].ID {
				t.Errorf("the first two: %+v", hits)
			}
			if hits := find(SearchParams{Query: "harbor", SessionID: &chats[0].ID}); len(hits) != 3 || hits[0].SessionID != chats[0].ID {
				t.Errorf("in one chat: %+v", hits)
			}
		})
	}
}
