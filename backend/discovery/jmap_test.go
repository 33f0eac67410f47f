package discovery

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"helix/backend/fault"
)

// jmapServer is a mail server written from RFC 8620 and 8621: what the operations use of them, and the refusals
// that they prescribe.
type jmapServer struct {
	*testing.T
	mu        sync.Mutex
	emails    map[string]m
	submitted []m
	base      string
	elsewhere bool   // the session names another host
	refuse    string // type of the SetError of submissions
}

func newJMAP(t *testing.T) *jmapServer {
	j := &jmapServer{T: t, emails: map[string]m{}}
	for i, subject := range []string{"Invoice of May", "Lunch?", "Invoice of June"} {
		id := fmt.Sprint("e", i+1)
		j.emails[id] = m{"id": id, "threadId": "t" + id, "mailboxIds": m{"in": true}, "keywords": m{}, "from": []any{m{"name": "Grace", "email": "grace@example.org"}}, "to": []any{m{"email": "ada@example.com"}},
			"subject": subject, "receivedAt": fmt.Sprintf("2026-11-0%dT08:00:00Z", i+1), "preview": "Dear Ada", "hasAttachment": i == 2, "messageId": []any{id + "@example.org"}, "text": "Dear Ada,\n\nsee below."}
	}
	j.emails["e1"]["keywords"] = m{"$seen": true}
	s := httptest.NewServer(http.HandlerFunc(j.serve))
	t.Cleanup(s.Close)
	j.base = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	return j
}

func (j *jmapServer) serve(w http.ResponseWriter, r *http.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer love lace" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == "GET" && r.URL.Path == "/.well-known/jmap":
		http.Redirect(w, r, "/jmap/session", http.StatusFound)
	case r.Method == "GET" && r.URL.Path == "/jmap/session":
		api := j.base + "/jmap/api"
		if j.elsewhere {
			api = "https://other.example.com/jmap/api"
		}
		_ = json.NewEncoder(w).Encode(m{"capabilities": m{"urn:ietf:params:jmap:core": m{}, "urn:ietf:params:jmap:mail": m{}, "urn:ietf:params:jmap:submission": m{}},
			"accounts": m{"A1": m{}}, "primaryAccounts": m{"urn:ietf:params:jmap:mail": "A1"}, "apiUrl": api, "state": "s"})
	case r.Method == "POST" && r.URL.Path == "/jmap/api":
		var q struct {
			Using       []string
			MethodCalls [][]any
		}
		if json.NewDecoder(r.Body).Decode(&q) != nil || r.Header.Get("Content-Type") != "application/json" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"type":"urn:ietf:params:jmap:error:notRequest"}`))
			return
		}
		out := [][]any{}
		for _, c := range q.MethodCalls {
			name, args, id := c[0].(string), c[1].(m), c[2].(string)
			kind, _, _ := strings.Cut(name, "/")
			need := map[string]string{"Mailbox": "mail", "Email": "mail", "Identity": "submission", "EmailSubmission": "submission"}[kind]
			switch problem := j.resolve(args, out); {
			case !slices.Contains(q.Using, "urn:ietf:params:jmap:"+need):
				out = append(out, []any{"error", m{"type": "unknownMethod"}, id})
			case problem != "":
				out = append(out, []any{"error", m{"type": problem}, id})
			case args["accountId"] != "A1":
				out = append(out, []any{"error", m{"type": "accountNotFound"}, id})
			default:
				for _, x := range j.method(name, args) {
					out = append(out, append(x, id))
				}
			}
		}
		_ = json.NewEncoder(w).Encode(m{"methodResponses": out, "sessionState": "s"})
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// resolve replaces references to former results (RFC 8620, section 3.7).
func (j *jmapServer) resolve(args m, before [][]any) string {
	for k, v := range args {
		name, ok := strings.CutPrefix(k, "#")
		if !ok {
			continue
		}
		ref := v.(m)
		i := slices.IndexFunc(before, func(x []any) bool { return x[2] == ref["resultOf"] && x[0] == ref["name"] })
		if i < 0 {
			return "invalidResultReference"
		}
		args[name] = before[i][1].(m)[strings.TrimPrefix(ref["path"].(string), "/")]
		delete(args, k)
	}
	return ""
}

func picked(x m, properties any) m {
	list, ok := properties.([]any)
	if !ok {
		return x
	}
	out := m{"id": x["id"]}
	for _, p := range list {
		if v, ok := x[p.(string)]; ok {
			out[p.(string)] = v
		}
	}
	return out
}

func (j *jmapServer) method(name string, args m) [][]any {
	failed := func(kind string) [][]any { return [][]any{{"error", m{"type": kind}}} }
	switch name {
	case "Mailbox/get":
		return [][]any{{name, m{"list": []any{m{"id": "in", "name": "Inbox", "role": "inbox", "parentId": nil, "totalEmails": 3, "unreadEmails": 2}, m{"id": "d/r", "name": "Drafts", "role": "drafts"}, m{"id": "out", "name": "Sent", "role": "sent"}}}}}
	case "Identity/get":
		return [][]any{{name, m{"list": []any{m{"id": "I1", "name": "Ada", "email": "ada@example.com"}}}}}
	case "Email/query":
		ids := []any{}
		filter := args["filter"].(m)
		for _, id := range []string{"e3", "e2", "e1"} {
			x, fits := j.emails[id], true
			for k, v := range filter {
				switch k {
				case "text", "subject":
					fits = fits && strings.Contains(x["subject"].(string), v.(string))
				case "inMailbox":
					fits = fits && x["mailboxIds"].(m)[v.(string)] == true
				case "notKeyword":
					fits = fits && x["keywords"].(m)[v.(string)] == nil
				default:
					return failed("unsupportedFilter")
				}
			}
			if fits {
				ids = append(ids, id)
			}
		}
		total, limit := len(ids), int(args["limit"].(float64))
		ids = ids[min(len(ids), int(args["position"].(float64))):]
		return [][]any{{name, m{"ids": ids[:min(len(ids), limit)], "total": total}}}
	case "Email/get":
		list, missing := []any{}, []any{}
		for _, id := range args["ids"].([]any) {
			x := j.emails[id.(string)]
			if x == nil {
				missing = append(missing, id)
				continue
			}
			x = picked(x, args["properties"])
			if args["fetchTextBodyValues"] == true {
				x["textBody"], x["bodyValues"] = []any{m{"partId": "1", "type": "text/plain"}}, m{"1": m{"value": j.emails[id.(string)]["text"], "isTruncated": false}}
				x["attachments"] = []any{m{"name": "invoice.pdf", "type": "application/pdf", "size": 1200}}
			}
			list = append(list, x)
		}
		return [][]any{{name, m{"list": list, "notFound": missing}}}
	case "Email/set":
		created := m{}
		for key, v := range object(args["create"]) {
			id := fmt.Sprint("e", len(j.emails)+1)
			x := v.(m)
			x["id"], x["text"] = id, x["bodyValues"].(m)["t"].(m)["value"]
			j.emails[id] = x
			created[key] = m{"id": id}
		}
		gone := []any{}
		for _, id := range list(args["destroy"]) {
			delete(j.emails, id.(string))
			gone = append(gone, id)
		}
		return [][]any{{name, m{"created": created, "destroyed": gone}}}
	case "EmailSubmission/set":
		s := args["create"].(m)["s"].(m)
		if j.refuse != "" {
			return [][]any{{name, m{"created": nil, "notCreated": m{"s": m{"type": j.refuse, "description": "no"}}}}}
		}
		x := j.emails[s["emailId"].(string)]
		j.submitted = append(j.submitted, x)
		for path, v := range args["onSuccessUpdateEmail"].(m)["#s"].(m) {
			field, key, _ := strings.Cut(path, "/")
			key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
			if v == nil {
				delete(x[field].(m), key)
			} else {
				x[field].(m)[key] = v
			}
		}
		return [][]any{{name, m{"created": m{"s": m{"id": "S1"}}}}, {"Email/set", m{"updated": m{x["id"].(string): nil}}}}
	}
	return failed("unknownMethod")
}

func list(v any) []any { l, _ := v.([]any); return l }

func TestMailWorksOverJMAP(t *testing.T) {
	t.Parallel()
	e, j := setup(t), newJMAP(t)
	id := e.added("mail", j.base)
	e.signIn(id, "token", "", "wrong one")
	e.refused(id, "listMailboxes", m{}, fault.Denied, "refused the credential")
	e.signIn(id, "token", "", "love lace")

	var boxes struct {
		Mailboxes []struct {
			ID, Name, Role string
			UnreadEmails   int
		}
	}
	e.result(id, "listMailboxes", m{}, &boxes)
	if len(boxes.Mailboxes) != 3 || boxes.Mailboxes[0].Role != "inbox" || boxes.Mailboxes[0].UnreadEmails != 2 {
		t.Errorf("%+v", boxes)
	}
	type found struct {
		Total    int
		Messages []struct {
			ID, Subject   string
			HasAttachment bool
			From          []struct{ Name, Email string }
		}
	}
	for _, x := range []struct {
		params m
		total  int
		ids    string
	}{{m{}, 3, "e3 e2 e1"}, {m{"limit": 1, "offset": 1}, 3, "e2"}, {m{"text": "Invoice"}, 2, "e3 e1"}, {m{"text": "Invoice", "unread": true, "mailbox": "inbox"}, 1, "e3"}, {m{"mailbox": "out"}, 0, ""}} {
		var got found
		e.result(id, "searchMail", x.params, &got)
		var ids []string
		for _, y := range got.Messages {
			ids = append(ids, y.ID)
		}
		if got.Total != x.total || strings.Join(ids, " ") != x.ids {
			t.Errorf("%v: %+v", x.params, got)
		}
	}
	var one struct {
		Subject, Text, TextType string
		MessageID               []string
		Attachments             []struct{ Name string }
	}
	e.result(id, "getMail", m{"id": "e3"}, &one)
	if one.Subject != "Invoice of June" || one.Text != "Dear Ada,\n\nsee below." || one.TextType != "text/plain" || len(one.Attachments) != 1 || one.MessageID[0] != "e3@example.org" {
		t.Errorf("%+v", one)
	}
	e.refused(id, "getMail", m{"id": "e9"}, fault.NotFound, "no message with the id")
	e.refused(id, "searchMail", m{"mailbox": "nowhere"}, fault.NotFound, "no mailbox")
	e.refused(id, "searchMail", m{"after": "2026-11-01T00:00:00Z"}, fault.Invalid, "unsupportedFilter")

	reply := m{"body": m{"to": []string{"Grace <grace@example.org>"}, "bcc": []string{"hidden@example.org"}, "subject": "Re: Invoice", "text": "Paid.", "inReplyTo": one.MessageID[0]}}
	e.result(id, "sendMail", reply, &m{})
	if len(j.submitted) != 1 {
		t.Fatalf("%v", j.submitted)
	}
	sent := j.submitted[0]
	if fmt.Sprintf("%v %v %v %v %v %v %v", sent["mailboxIds"], sent["keywords"], sent["from"], sent["to"], sent["bcc"], sent["inReplyTo"], sent["text"]) !=
		"map[out:true] map[$seen:true] [map[email:ada@example.com name:Ada]] [map[email:grace@example.org name:Grace]] [map[email:hidden@example.org]] [e3@example.org] Paid." {
		t.Errorf("%v", sent)
	}

	// A message that the server refuses to send is in no mailbox.
	e.refused(id, "sendMail", m{"body": m{"from": "eve@example.com", "to": []string{"grace@example.org"}, "subject": "x", "text": "x"}}, fault.Denied, "may not send from eve@example.com")
	j.refuse = "forbiddenToSend"
	e.refused(id, "sendMail", reply, fault.Denied, "forbiddenToSend")
	if len(j.emails) != 4 || len(j.submitted) != 1 {
		t.Errorf("%v", j.emails)
	}
	j.elsewhere = true
	e.refused(id, "listMailboxes", m{}, fault.Denied, "may reach only")
}

func TestPublishedCalendarIsRead(t *testing.T) {
	t.Parallel()
	e := setup(t)
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//EN\r\n" +
		"BEGIN:VEVENT\r\nUID:a\r\nDTSTAMP:20260101T000000Z\r\nDTSTART;TZID=W. Europe Standard Time:20261201T090000\r\nSUMMARY:Odd zone\r\nEND:VEVENT\r\n" +
		"BEGIN:VEVENT\r\nUID:b\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:20261130T120000Z\r\nDURATION:PT30M\r\nRRULE:FREQ=DAILY\r\nEXDATE:20261202T120000Z,20261203T120000Z\r\nSUMMARY:Walk\r\nEND:VEVENT\r\n" +
		"BEGIN:VEVENT\r\nUID:b\r\nDTSTAMP:20260101T000000Z\r\nRECURRENCE-ID:20261204T120000Z\r\nDTSTART:20261204T150000Z\r\nDTEND:20261204T153000Z\r\nSUMMARY:Late walk\r\nEND:VEVENT\r\n" +
		"BEGIN:VEVENT\r\nUID:c\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:20000101T000000Z\r\nRRULE:FREQ=SECONDLY\r\nSUMMARY:Bomb\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/team.ics" {
			_, _ = w.Write([]byte("<html>"))
			return
		}
		w.Header().Set("Content-Type", "text/calendar")
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(s.Close)
	base := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	id := e.added("published-calendar", base+"/team.ics")
	r, err := e.run(id, "listEvents", `{"from":"2026-12-01T00:00:00Z","to":"2026-12-05T00:00:00Z"}`)
	if err != nil || len(r.Warnings) != 2 || !strings.Contains(strings.Join(r.Warnings, " "), "W. Europe Standard Time") || !strings.Contains(strings.Join(r.Warnings, " "), "more than once a day") {
		t.Fatalf("%v %q", err, r.Warnings)
	}
	var got struct{ Body struct{ Events []eventView } }
	if err := json.Unmarshal(r.Output, &got); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, x := range got.Body.Events {
		if x.Summary != "Odd zone" { // its time depends on this computer
			texts = append(texts, x.Summary+" "+x.Start)
		}
	}
	if want := []string{"Walk 2026-12-01T12:00:00Z", "Late walk 2026-12-04T15:00:00Z"}; !slices.Equal(texts, want) || len(got.Body.Events) != 3 {
		t.Errorf("%q of %d", texts, len(got.Body.Events))
	}
	if _, err := e.s.Revoke(e.ctx, RevokeParams{ManifestID: id}); err != nil {
		t.Fatal(err)
	}
	id = e.added("published-calendar", base+"/page")
	e.refused(id, "listEvents", m{"from": "2026-12-01", "to": "2026-12-05"}, fault.Unavailable, "isn't an iCalendar file")
}

func TestDescriptionsNameOnlyKnownProtocols(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for _, x := range []struct{ protocol, id, words string }{{"gopher", "listEvents", "isn't known"}, {"caldav", "wipeDisk", "has no operation"}} {
		spec := `{"openapi":"3.1.0","x-helix-protocol":"` + x.protocol + `","info":{"title":"Odd","version":"1.0.0"},"servers":[{"url":"https://api.example.com"}],"paths":{"/x":{"get":{"operationId":"` + x.id + `"}}}}`
		s, err := e.s.InspectOpenAPI(e.ctx, InspectParams{Content: spec})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.s.ImportOpenAPI(e.ctx, ImportOpenAPIParams{SpecID: s.SpecID, Operations: []string{"get /x"}}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), x.words) {
			t.Errorf("%+v: %v", x, err)
		}
	}
}
