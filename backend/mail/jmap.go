package mail

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"helix/backend/fault"
	"helix/backend/safehttp"
)

// The capabilities of JMAP that are used.
const (
	jmapCore       = "urn:ietf:params:jmap:core"
	jmapMail       = "urn:ietf:params:jmap:mail"
	jmapSubmission = "urn:ietf:params:jmap:submission"
)

// JMAP is an account at a JMAP server.
type JMAP struct {
	Server string // address of the server, or of its session resource
	Do     func(ctx context.Context, r safehttp.Request) (*safehttp.Response, error)
}

// session is the part of the session resource that is needed (RFC 8620, section 2).
type session struct {
	APIURL   string                     `json:"apiUrl"`
	Primary  map[string]string          `json:"primaryAccounts"`
	Features map[string]json.RawMessage `json:"capabilities"`
	account  string
}

// invocation is one call of a method, or its result.
type invocation struct {
	name string
	args any
	id   string
	raw  json.RawMessage
}

// MarshalJSON implements json.Marshaler.
func (i invocation) MarshalJSON() ([]byte, error) { return json.Marshal([]any{i.name, i.args, i.id}) }

// UnmarshalJSON implements json.Unmarshaler.
func (i *invocation) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&i.name, &i.raw, &i.id})
}

type object = map[string]any

// open reads the session.
func (j *JMAP) open(ctx context.Context) (*session, error) {
	address := j.Server
	if u, err := url.Parse(address); err == nil && strings.Trim(u.Path, "/") == "" {
		address = strings.TrimSuffix(address, "/") + "/.well-known/jmap"
	}
	raw, err := j.exchange(ctx, safehttp.Request{URL: address, Header: http.Header{"Accept": {"application/json"}}})
	if err != nil {
		return nil, err
	}
	s := &session{}
	if err := json.Unmarshal(raw, s); err != nil || s.APIURL == "" {
		return nil, fault.Unavailablef("%s doesn't answer as a JMAP server.", j.Server).WithCause(err)
	}
	if s.account = s.Primary[jmapMail]; s.account == "" {
		return nil, fault.Unavailablef("The account has no e-mail on %s.", j.Server)
	}
	base, err := url.Parse(address)
	if err != nil {
		return nil, fault.Invalidf("The address of the server isn't valid.")
	}
	api, err := base.Parse(s.APIURL)
	if err != nil {
		return nil, fault.Unavailablef("%s names no valid address for its calls.", j.Server)
	}
	if api.Scheme != base.Scheme || !strings.EqualFold(api.Host, base.Host) && !strings.EqualFold(api.Host, base.Host+":443") {
		return nil, fault.Deniedf("The e-mail is on %s, but the tool may reach only %s. Import it again with the server %s://%s.", api.Host, base.Host, api.Scheme, api.Host)
	}
	s.APIURL = api.String()
	return s, nil
}

// call calls methods, and decodes the results of those that have a place in out.
func (j *JMAP) call(ctx context.Context, s *session, using []string, calls []invocation, out map[string]any) error {
	body, err := json.Marshal(object{"using": using, "methodCalls": calls})
	if err != nil {
		return fault.Internalf(err, "Couldn't write the request.")
	}
	raw, err := j.exchange(ctx, safehttp.Request{Method: http.MethodPost, URL: s.APIURL, Header: http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}}, Body: body})
	if err != nil {
		return err
	}
	var r struct {
		Responses []invocation `json:"methodResponses"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return fault.Unavailablef("%s doesn't answer as a JMAP server.", j.Server).WithCause(err)
	}
	done := map[string]bool{}
	for _, x := range r.Responses {
		if x.name == "error" {
			return methodError(x.raw)
		}
		if to := out[x.id]; to != nil && !done[x.id] { // an implicit result of the same call follows
			if err := json.Unmarshal(x.raw, to); err != nil {
				return fault.Unavailablef("%s answered something that can't be read.", j.Server).WithCause(err)
			}
		}
		done[x.id] = true
	}
	for id := range out {
		if !done[id] {
			return fault.Unavailablef("%s left out a part of its answer.", j.Server)
		}
	}
	return nil
}

// problem is the error of a method or of one object (RFC 8620, sections 3.6.2 and 5.3).
type problem struct {
	Type        string   `json:"type"`
	Description string   `json:"description"`
	Properties  []string `json:"properties"`
}

func (p *problem) err() *fault.Error {
	kind := fault.Invalid
	switch p.Type {
	case "notFound", "accountNotFound":
		kind = fault.NotFound
	case "forbidden", "accountReadOnly", "forbiddenFrom", "forbiddenToSend", "forbiddenMailFrom":
		kind = fault.Denied
	case "serverUnavailable", "serverFail", "serverPartialFail":
		kind = fault.Unavailable
	case "overQuota", "tooLarge", "rateLimit", "tooManyRecipients", "requestTooLarge":
		kind = fault.Limit
	case "stateMismatch":
		kind = fault.Conflict
	}
	text := clip(strings.TrimSpace(p.Type+" "+strings.Join(p.Properties, ", ")), 200)
	if p.Description != "" {
		text += ": " + clip(p.Description, 300)
	}
	return fault.New(kind, "The mail server refused the request (%s).", text)
}

func methodError(raw json.RawMessage) error {
	var p problem
	if err := json.Unmarshal(raw, &p); err != nil {
		return fault.Unavailablef("The mail server refused the request.").WithCause(err)
	}
	return p.err()
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func (j *JMAP) exchange(ctx context.Context, r safehttp.Request) ([]byte, error) {
	resp, err := j.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	switch s := resp.Status; {
	case s >= 200 && s < 300:
		return resp.Body, nil
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return nil, fault.Deniedf("The mail server refused the credential. Many providers want a token or a password that is made for one program.")
	case s == http.StatusNotFound:
		return nil, fault.Unavailablef("%s doesn't answer as a JMAP server.", j.Server)
	case s == http.StatusTooManyRequests:
		return nil, fault.Limitf("The mail server refused the request because of a limit.")
	case s >= 500:
		return nil, fault.Unavailablef("The mail server couldn't answer (%d).", s)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "application/problem+json" { // RFC 8620, section 3.6.1
		var p struct {
			Type   string `json:"type"`
			Detail string `json:"detail"`
			Limit  string `json:"limit"`
		}
		if json.Unmarshal(resp.Body, &p) == nil {
			return nil, fault.Invalidf("The mail server refused the request (%s).", clip(strings.TrimSpace(p.Type+" "+p.Limit+" "+p.Detail), 300))
		}
	}
	return nil, fault.Invalidf("The mail server refused the request (%d).", resp.Status)
}

// Mailbox is a folder, or a label, of an account.
type Mailbox struct {
	ID     string  `json:"id"`
	Name   string  `json:"name"`
	Role   *string `json:"role"` // inbox, drafts, sent, trash, junk or archive
	Parent *string `json:"parentId"`
	Total  int     `json:"totalEmails"`
	Unread int     `json:"unreadEmails"`
}

// Mailboxes lists the mailboxes.
func (j *JMAP) Mailboxes(ctx context.Context) ([]Mailbox, error) {
	s, err := j.open(ctx)
	if err != nil {
		return nil, err
	}
	return j.mailboxes(ctx, s)
}

func (j *JMAP) mailboxes(ctx context.Context, s *session) ([]Mailbox, error) {
	var out struct{ List []Mailbox }
	err := j.call(ctx, s, []string{jmapCore, jmapMail}, []invocation{{name: "Mailbox/get", id: "m", args: object{"accountId": s.account, "ids": nil, "properties": []string{"id", "name", "role", "parentId", "totalEmails", "unreadEmails"}}}}, map[string]any{"m": &out})
	if out.List == nil {
		out.List = []Mailbox{}
	}
	return out.List, err
}

// Query chooses messages.
type Query struct {
	Mailbox string `json:"mailbox"` // id, or role such as inbox
	Text    string `json:"text"`    // words anywhere in the message
	From    string `json:"from"`
	To      string `json:"to"`
	Subject string `json:"subject"`
	After   string `json:"after"` // RFC 3339
	Before  string `json:"before"`
	Unread  bool   `json:"unread"`
	Limit   int    `json:"limit"`
	Offset  int    `json:"offset"`
}

// Address is a person in a message.
type Address struct {
	Name  string `json:"name,omitempty"`
	Email string `json:"email"`
}

// Summary is a message in a list.
type Summary struct {
	ID         string          `json:"id"`
	Thread     string          `json:"threadId"`
	From       []Address       `json:"from"`
	To         []Address       `json:"to"`
	Subject    string          `json:"subject"`
	ReceivedAt string          `json:"receivedAt"`
	Preview    string          `json:"preview"`
	Attachment bool            `json:"hasAttachment"`
	Keywords   map[string]bool `json:"keywords,omitempty"` // such as $seen and $flagged
}

// Found is one page of messages, newest first.
type Found struct {
	Messages []Summary `json:"messages"`
	Total    int       `json:"total"`
}

var summaryProperties = []string{"id", "threadId", "from", "to", "subject", "receivedAt", "preview", "hasAttachment", "keywords"}

// Search lists messages.
func (j *JMAP) Search(ctx context.Context, q Query) (Found, error) {
	s, err := j.open(ctx)
	if err != nil {
		return Found{}, err
	}
	filter := object{}
	for name, v := range map[string]string{"text": q.Text, "from": q.From, "to": q.To, "subject": q.Subject, "after": q.After, "before": q.Before} {
		if v != "" {
			filter[name] = v
		}
	}
	if q.Unread {
		filter["notKeyword"] = "$seen"
	}
	if q.Mailbox != "" {
		list, err := j.mailboxes(ctx, s)
		if err != nil {
			return Found{}, err
		}
		i := slices.IndexFunc(list, func(m Mailbox) bool { return m.ID == q.Mailbox || m.Role != nil && *m.Role == q.Mailbox })
		if i < 0 {
			return Found{}, fault.NotFoundf("The account has no mailbox %.100q. List the mailboxes to see their ids and roles.", q.Mailbox)
		}
		filter["inMailbox"] = list[i].ID
	}
	if q.Limit == 0 {
		q.Limit = 20
	}
	var query struct{ Total int }
	var got struct{ List []Summary }
	err = j.call(ctx, s, []string{jmapCore, jmapMail}, []invocation{
		{name: "Email/query", id: "q", args: object{"accountId": s.account, "filter": filter, "sort": []object{{"property": "receivedAt", "isAscending": false}}, "position": q.Offset, "limit": min(q.Limit, 50), "calculateTotal": true}},
		{name: "Email/get", id: "g", args: object{"accountId": s.account, "#ids": object{"resultOf": "q", "name": "Email/query", "path": "/ids"}, "properties": summaryProperties}},
	}, map[string]any{"q": &query, "g": &got})
	if got.List == nil {
		got.List = []Summary{}
	}
	return Found{got.List, query.Total}, err
}

// Message is a whole message, with its text.
type Message struct {
	Summary
	Cc          []Address `json:"cc"`
	ReplyTo     []Address `json:"replyTo"`
	MessageID   []string  `json:"messageId"`
	Text        string    `json:"text"`
	TextType    string    `json:"textType"` // text/plain, or text/html for a message without a plain text
	Truncated   bool      `json:"truncated,omitempty"`
	Attachments []Part    `json:"attachments"`
}

// Part is an attachment of a message.
type Part struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

const maxText = 200_000 // bytes of the text of a message

// Get returns a message.
func (j *JMAP) Get(ctx context.Context, id string) (Message, error) {
	s, err := j.open(ctx)
	if err != nil {
		return Message{}, err
	}
	var got struct {
		List []struct {
			Message
			TextBody []struct {
				PartID string `json:"partId"`
				Type   string `json:"type"`
			} `json:"textBody"`
			Values map[string]struct {
				Value     string `json:"value"`
				Truncated bool   `json:"isTruncated"`
			} `json:"bodyValues"`
		}
	}
	err = j.call(ctx, s, []string{jmapCore, jmapMail}, []invocation{{name: "Email/get", id: "g", args: object{
		"accountId": s.account, "ids": []string{id}, "properties": append([]string{"cc", "replyTo", "messageId", "textBody", "bodyValues", "attachments"}, summaryProperties...),
		"bodyProperties": []string{"partId", "type", "name", "size"}, "fetchTextBodyValues": true, "maxBodyValueBytes": maxText,
	}}}, map[string]any{"g": &got})
	if err != nil {
		return Message{}, err
	}
	if len(got.List) == 0 {
		return Message{}, fault.NotFoundf("The account has no message with the id %.100q.", id)
	}
	x := got.List[0]
	m := x.Message
	for _, p := range x.TextBody {
		v := x.Values[p.PartID]
		m.Text += v.Value
		m.Truncated = m.Truncated || v.Truncated
		if m.TextType == "" || p.Type == "text/html" {
			m.TextType = p.Type
		}
	}
	if len(m.Text) > maxText {
		m.Text, m.Truncated = clip(m.Text, maxText), true
	}
	if m.Attachments == nil {
		m.Attachments = []Part{}
	}
	return m, nil
}

// identity is an address that the account may send from.
type identity struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Email string `json:"email"`
}

// Send stores a message and submits it. It is moved to the sent messages; if the server refuses to send it, it is
// removed again.
func (j *JMAP) Send(ctx context.Context, d *Draft) (Sent, error) {
	s, err := j.open(ctx)
	if err != nil {
		return Sent{}, err
	}
	if _, ok := s.Features[jmapSubmission]; !ok {
		return Sent{}, fault.Unavailablef("%s doesn't send e-mail over JMAP. Nothing was sent.", j.Server)
	}
	var ids struct{ List []identity }
	using := []string{jmapCore, jmapMail, jmapSubmission}
	if err := j.call(ctx, s, using, []invocation{{name: "Identity/get", id: "i", args: object{"accountId": s.account, "ids": nil}}}, map[string]any{"i": &ids}); err != nil {
		return Sent{}, err
	}
	me, err := choose(ids.List, d)
	if err != nil {
		return Sent{}, err
	}
	p, err := d.parse()
	if err != nil {
		return Sent{}, err
	}
	boxes, err := j.mailboxes(ctx, s)
	if err != nil {
		return Sent{}, err
	}
	drafts, sent := withRole(boxes, "drafts"), withRole(boxes, "sent")
	if drafts == "" {
		return Sent{}, fault.Unavailablef("The account has no mailbox for drafts, so nothing was sent.")
	}
	messageID := p.newID()
	email := object{
		"messageId":  []string{messageID},
		"mailboxIds": object{drafts: true}, "keywords": object{"$draft": true, "$seen": true}, "from": people([]*mail.Address{p.from}), "to": people(p.to), "cc": people(p.cc), "bcc": people(p.bcc),
		"subject": d.Subject, "bodyValues": object{"t": object{"value": d.Text}}, "textBody": []object{{"partId": "t", "type": "text/plain"}},
	}
	if id := strings.Trim(p.inReplyTo, "<>"); id != "" {
		email["inReplyTo"], email["references"] = []string{id}, []string{id}
	}
	after := object{"keywords/$draft": nil}
	if sent != "" {
		after["mailboxIds/"+patch(drafts)], after["mailboxIds/"+patch(sent)] = nil, true
	}
	type result struct {
		Created map[string]struct {
			ID string `json:"id"`
		} `json:"created"`
		NotCreated map[string]problem `json:"notCreated"`
	}
	var stored, submitted result
	if err := j.call(ctx, s, using, []invocation{{name: "Email/set", id: "e", args: object{"accountId": s.account, "create": object{"m": email}}}}, map[string]any{"e": &stored}); err != nil {
		return Sent{}, err
	}
	if why, ok := stored.NotCreated["m"]; ok {
		return Sent{}, why.err()
	}
	if stored.Created["m"].ID == "" {
		return Sent{}, fault.Unavailablef("%s didn't store the message, so nothing was sent.", j.Server)
	}
	id := stored.Created["m"].ID
	err = j.call(ctx, s, using, []invocation{{name: "EmailSubmission/set", id: "s", args: object{
		"accountId": s.account, "create": object{"s": object{"identityId": me.ID, "emailId": id}}, "onSuccessUpdateEmail": object{"#s": after},
	}}}, map[string]any{"s": &submitted})
	if err == nil && submitted.Created["s"].ID != "" {
		return Sent{"<" + messageID + ">", p.recipients()}, nil
	}
	if why, ok := submitted.NotCreated["s"]; ok {
		err = why.err()
	}
	if err == nil {
		err = fault.Unavailablef("The mail server didn't say whether it sent the message. Look into the sent messages before you send it again.")
	}
	if f := fault.As(err); f.Kind == fault.Invalid || f.Kind == fault.Denied || f.Kind == fault.Limit { // it was not sent for certain
		if derr := j.call(ctx, s, using, []invocation{{name: "Email/set", id: "d", args: object{"accountId": s.account, "destroy": []string{id}}}}, nil); derr != nil {
			return Sent{}, fault.New(f.Kind, "%s It is still among the drafts.", f.Message).WithCause(err)
		}
	}
	return Sent{}, err
}

// choose returns the identity that a draft is from; without one it is the first.
func choose(list []identity, d *Draft) (identity, error) {
	if len(list) == 0 {
		return identity{}, fault.Deniedf("The account may not send e-mail.")
	}
	if d.From == "" {
		d.From = (&mail.Address{Name: list[0].Name, Address: list[0].Email}).String()
		return list[0], nil
	}
	a, err := mail.ParseAddress(d.From)
	if err != nil {
		return identity{}, fault.InvalidField("body/from", fault.CodeSyntax, "%.100q isn't an e-mail address.", d.From)
	}
	i := slices.IndexFunc(list, func(x identity) bool { return strings.EqualFold(x.Email, a.Address) })
	if i < 0 {
		return identity{}, fault.Deniedf("The account may not send from %s.", a.Address)
	}
	return list[i], nil
}

func withRole(list []Mailbox, role string) string {
	i := slices.IndexFunc(list, func(m Mailbox) bool { return m.Role != nil && *m.Role == role })
	if i < 0 {
		return ""
	}
	return list[i].ID
}

// patch escapes a part of a path of a PatchObject.
func patch(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

func people(list []*mail.Address) []Address {
	out := make([]Address, len(list))
	for i, a := range list {
		out[i] = Address{a.Name, a.Address}
	}
	return out
}
