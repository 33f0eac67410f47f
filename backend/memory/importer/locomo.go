package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errShape means that a record is valid JSON but not of the expected format.
var errShape = errors.New("importer: not a record of this format")

// parseLoCoMo parses one dialogue of the LoCoMo data set (Maharana et al. 2024): the turns of its
// sessions in order. Observations, summaries, events and questions in the file are ignored. name is
// used as the id if the dialogue has none; times are in zone.
func parseLoCoMo(raw []byte, name string, zone *time.Location) (*Conversation, error) {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(raw, &doc); err != nil || doc == nil {
		return nil, errors.Join(errShape, err)
	}
	id := strings.TrimSuffix(name, path.Ext(name))
	if v, ok := doc["sample_id"]; ok {
		var sample string
		if json.Unmarshal(v, &sample) == nil && sample != "" {
			id = sample
		}
	}
	if v, ok := doc["conversation"]; ok { // the version of the data set in a single file wraps it
		doc = nil
		if err := json.Unmarshal(v, &doc); err != nil || doc == nil {
			return nil, errors.Join(errShape, err)
		}
	}
	c := &Conversation{Source: LoCoMo, ExternalID: cut(clean(id), maxTitle)}
	for _, key := range []string{"speaker_a", "speaker_b"} {
		var who string
		if json.Unmarshal(doc[key], &who) == nil && clean(who) != "" {
			c.Participants = append(c.Participants, line(who))
		}
	}
	var sessions []int
	for key := range doc {
		if n, err := strconv.Atoi(strings.TrimPrefix(key, "session_")); err == nil && n >= 0 && key == fmt.Sprintf("session_%d", n) {
			sessions = append(sessions, n)
		}
	}
	if len(sessions) == 0 && len(c.Participants) == 0 {
		return nil, errShape
	}
	slices.Sort(sessions)
	for _, n := range sessions {
		turns, err := locomoSession(doc, n, c.Participants, zone)
		if err != nil {
			return nil, err
		}
		c.Turns = append(c.Turns, turns...)
	}
	c.Title = cut(strings.Join(c.Participants, " and "), maxTitle)
	c.Started, c.Ended = span(c.Turns)
	return c, nil
}

func locomoSession(doc map[string]json.RawMessage, n int, who []string, zone *time.Location) ([]Turn, error) {
	var entries []struct {
		Speaker string `json:"speaker"`
		DiaID   string `json:"dia_id"`
		Text    string `json:"text"`
		Caption string `json:"blip_caption"`
	}
	if err := json.Unmarshal(doc[fmt.Sprintf("session_%d", n)], &entries); err != nil {
		return nil, errors.Join(errShape, err)
	}
	var at *time.Time
	var when string
	if json.Unmarshal(doc[fmt.Sprintf("session_%d_date_time", n)], &when) == nil {
		at = locomoTime(when, zone)
	}
	turns := make([]Turn, 0, len(entries))
	for _, e := range entries {
		text := clean(e.Text)
		if caption := clean(e.Caption); caption != "" {
			text = strings.TrimSpace(text + " [shares " + caption + "]")
		}
		if text == "" {
			continue
		}
		t := Turn{ExternalID: cut(clean(e.DiaID), maxTitle), Role: "user", Speaker: line(e.Speaker), Text: text, At: at, Session: n}
		if len(who) > 1 && t.Speaker == who[1] {
			t.Role = "assistant"
		}
		turns = append(turns, t)
	}
	return turns, nil
}

// locomoTime parses a time such as "1:56 pm on 8 May, 2023". It returns nil for anything else.
func locomoTime(text string, zone *time.Location) *time.Time {
	text = strings.Join(strings.Fields(strings.ToLower(text)), " ")
	for _, layout := range []string{"3:04 pm on 2 January, 2006", "3:04 pm on 2 January 2006", "15:04 on 2 January, 2006"} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			at, _ := inYearRange(t)
			return at
		}
	}
	at, _ := parseTime(text, zone)
	return at
}
