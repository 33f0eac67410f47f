package discovery

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"mime"
	"mime/quotedprintable"
	"net/http"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/safehttp"
	"helix/backend/safehttp/safehttptest"
)

// server starts a program of the system and returns the first of its lines that has a word, and the later lines of JSON.
func server(t *testing.T, word, name string, args ...string) (string, <-chan string) {
	t.Helper()
	c := exec.Command(name, args...)
	r, w := io.Pipe()
	c.Stdout, c.Stderr = w, w
	if err := c.Start(); err != nil {
		t.Fatalf("couldn't start %s: %v; run make setup, which installs it", name, err)
	}
	first, later, ended := make(chan string, 1), make(chan string, 100), make(chan string, 1)
	go func() {
		var all []string
		found := false
		for lines := bufio.NewScanner(r); lines.Scan(); {
			all = append(all, lines.Text())
			switch {
			case found && strings.HasPrefix(lines.Text(), "{"):
				later <- lines.Text()
			case found: // of its log
			case strings.Contains(lines.Text(), word):
				first <- lines.Text()
				found = true
			}
		}
		ended <- strings.Join(all, "\n")
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		w.Close()
	})
	go func() {
		_, _ = c.Process.Wait()
		w.Close()
	}()
	select {
	case line := <-first:
		return line, later
	case all := <-ended:
		t.Fatalf("%s ended: %s", name, all)
	}
	return "", nil
}

// radicale starts a CalDAV server that has the user ada and returns its address.
func radicale(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"users": "ada:love lace\n", "config": "[auth]\ntype = htpasswd\nhtpasswd_filename = " + dir + "/users\nhtpasswd_encryption = plain\ndelay = 0\n[rights]\ntype = owner_only\n[storage]\nfilesystem_folder = " + dir + "/data\n[logging]\nlevel = info\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line, _ := server(t, "Listening on", "/usr/bin/radicale", "--config", dir+"/config", "--server-hosts", "127.0.0.1:0")
	_, port, _ := strings.Cut(strings.TrimRight(line, "'"), "]:")
	return "http://localhost:" + port
}

// dav sends a request to the server without Helix.
func dav(t *testing.T, method, address, body string) string {
	t.Helper()
	r, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("ada", "love lace")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 {
		t.Fatalf("%s %s: %s %s", method, address, resp.Status, raw)
	}
	return string(raw)
}

// added imports an API of the directory with a server and approves it.
func (e *env) added(name, address string) uuid.UUID {
	e.Helper()
	x, err := e.s.InspectOpenAPI(e.ctx, InspectParams{URL: "catalog:" + name})
	if err != nil {
		e.Fatal(err)
	}
	ops, err := e.s.Operations(e.ctx, OperationsParams{SpecID: x.SpecID})
	if err != nil {
		e.Fatal(err)
	}
	p := ImportOpenAPIParams{SpecID: x.SpecID, Name: name, Server: address}
	for _, o := range ops.Operations {
		p.Operations = append(p.Operations, o.Key)
	}
	r, err := e.s.ImportOpenAPI(e.ctx, p)
	if err != nil {
		e.Fatal(err)
	}
	if _, err := e.s.Approve(e.ctx, ApproveParams{ManifestID: *r.ManifestID, DefinitionHash: r.DefinitionHash}); err != nil {
		e.Fatal(err)
	}
	return *r.ManifestID
}

func (e *env) signIn(id uuid.UUID, scheme, user, value string) {
	e.Helper()
	if _, err := e.s.SetAuth(e.ctx, AuthParams{ManifestID: id, Scheme: scheme, User: user, Value: value}); err != nil {
		e.Fatal(err)
	}
}

// result runs an operation that must succeed, and decodes the body of its result.
func (e *env) result(id uuid.UUID, op string, params, out any) {
	e.Helper()
	r, err := e.run(id, op, string(rawJSON(params)))
	if err != nil || !r.Success {
		e.Fatalf("%s: %v %+v", op, err, r)
	}
	if err := json.Unmarshal(r.Output, &struct{ Body any }{out}); err != nil {
		e.Fatalf("%s: %v in %s", op, err, r.Output)
	}
}

// refused runs an operation that must fail with a kind and words.
func (e *env) refused(id uuid.UUID, op string, params any, kind fault.Kind, words string) {
	e.Helper()
	r, err := e.run(id, op, string(rawJSON(params)))
	if !fault.Is(err, kind) || !strings.Contains(err.Error(), words) {
		e.Errorf("%s %s: %v %+v", op, rawJSON(params), err, r)
	}
}

type m = map[string]any

type eventView struct {
	Event, ETag, UID, Summary, Start, End, Location string
	AllDay, Recurring                               bool
}

func TestCalendarWorksWithRadicale(t *testing.T) {
	t.Parallel()
	e := setup(t)
	at := radicale(t)
	dav(t, "MKCALENDAR", at+"/ada/work/", `<?xml version="1.0"?><c:mkcalendar xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:set><d:prop><d:displayname>Work</d:displayname></d:prop></d:set></c:mkcalendar>`)
	id := e.added("calendar", at)

	e.refused(id, "listCalendars", m{}, fault.Unavailable, "needs authentication")
	e.signIn(id, "login", "ada", "wrong password")
	e.refused(id, "listCalendars", m{}, fault.Denied, "refused the user name or the password")
	e.signIn(id, "login", "ada", "love lace")

	var list struct {
		Calendars []struct {
			Calendar, Name string
			ReadOnly       bool
		}
	}
	e.result(id, "listCalendars", m{}, &list)
	if len(list.Calendars) != 1 || list.Calendars[0].Name != "Work" || list.Calendars[0].Calendar != "/ada/work/" || list.Calendars[0].ReadOnly {
		t.Fatalf("%+v", list)
	}
	work := list.Calendars[0].Calendar
	events := func(from, to string) []eventView {
		t.Helper()
		var got struct{ Events []eventView }
		e.result(id, "listEvents", m{"calendar": work, "from": from, "to": to}, &got)
		return got.Events
	}

	var made struct{ Event, ETag string }
	e.result(id, "createEvent", m{"calendar": work, "body": m{"summary": "Dentist, upstairs", "start": "2026-12-01T10:00:00+01:00", "location": "Main St 1; left"}}, &made)
	got := events("2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z")
	if len(got) != 1 || got[0].Event != made.Event || got[0].ETag != made.ETag || got[0].Summary != "Dentist, upstairs" || got[0].Location != "Main St 1; left" || got[0].Start != "2026-12-01T09:00:00Z" || got[0].End != "2026-12-01T10:00:00Z" {
		t.Fatalf("%+v, created %+v", got, made)
	}
	if raw := dav(t, "GET", at+made.Event, ""); !strings.Contains(raw, `SUMMARY:Dentist\, upstairs`) || !strings.Contains(raw, "DTSTART:20261201T090000Z") {
		t.Errorf("the server has: %s", raw)
	}

	// A change keeps the length of an event that moves; one with an old version is refused.
	var changed struct{ Event, ETag string }
	e.result(id, "changeEvent", m{"event": made.Event, "etag": made.ETag, "body": m{"start": "2026-12-03T15:30:00Z", "location": ""}}, &changed)
	got = events("2026-12-03T00:00:00Z", "2026-12-04T00:00:00Z")
	if len(got) != 1 || got[0].UID == "" || got[0].Start != "2026-12-03T15:30:00Z" || got[0].End != "2026-12-03T16:30:00Z" || got[0].Location != "" || got[0].Summary != "Dentist, upstairs" || got[0].ETag == made.ETag {
		t.Fatalf("%+v", got)
	}
	e.refused(id, "changeEvent", m{"event": made.Event, "etag": made.ETag, "body": m{"summary": "Lost"}}, fault.Conflict, "has changed since")
	e.refused(id, "deleteEvent", m{"event": made.Event, "etag": made.ETag}, fault.Conflict, "has changed since")
	e.result(id, "deleteEvent", m{"event": made.Event, "etag": got[0].ETag}, &m{})
	e.refused(id, "deleteEvent", m{"event": made.Event, "etag": got[0].ETag}, fault.NotFound, "no event at")
	e.refused(id, "changeEvent", m{"event": made.Event, "etag": "*", "body": m{"summary": "Lost"}}, fault.NotFound, "no event at")

	// A recurring event keeps its hour when the clocks change; whole days end before the next day.
	e.result(id, "createEvent", m{"calendar": work, "body": m{"summary": "Standup", "start": "2027-03-22T09:00:00", "end": "2027-03-22T09:15:00", "timeZone": "Europe/Berlin", "recurrence": "FREQ=WEEKLY;COUNT=3"}}, &made)
	e.result(id, "createEvent", m{"calendar": work, "body": m{"summary": "Fair", "start": "2027-03-24", "end": "2027-03-26"}}, &made)
	var times []string
	for _, x := range events("2027-03-20T00:00:00Z", "2027-04-30T00:00:00Z") {
		times = append(times, x.Summary+" "+x.Start+" "+x.End)
	}
	if want := []string{"Standup 2027-03-22T09:00:00+01:00 2027-03-22T09:15:00+01:00", "Fair 2027-03-24 2027-03-26", "Standup 2027-03-29T09:00:00+02:00 2027-03-29T09:15:00+02:00", "Standup 2027-04-05T09:00:00+02:00 2027-04-05T09:15:00+02:00"}; !slices.Equal(times, want) {
		t.Errorf("%q", times)
	}

	for _, bad := range []struct {
		op     string
		params m
		kind   fault.Kind
		words  string
	}{
		{"listEvents", m{"calendar": "/ada/none/", "from": "2026-12-01", "to": "2026-12-02"}, fault.NotFound, "no calendar at /ada/none/"},
		{"createEvent", m{"calendar": "/ada/none/", "body": m{"summary": "x", "start": "2026-12-01"}}, fault.NotFound, "no calendar at /ada/none/"},
		{"listEvents", m{"calendar": "/bob/work/", "from": "2026-12-01", "to": "2026-12-02"}, fault.Denied, "isn't allowed"},
		{"listEvents", m{"calendar": "https://example.com/ada/", "from": "2026-12-01", "to": "2026-12-02"}, fault.Denied, "may reach only"},
		{"listEvents", m{"calendar": work, "from": "2026-12-02", "to": "2026-12-01"}, fault.Invalid, "end must be after"},
		{"listEvents", m{"calendar": work, "from": "tomorrow", "to": "2026-12-01"}, fault.Invalid, "from must be a date"},
		{"createEvent", m{"calendar": work, "body": m{"summary": "x", "start": "2026-12-01T10:00:00"}}, fault.Invalid, "needs timeZone"},
		{"createEvent", m{"calendar": work, "body": m{"summary": "x", "start": "2026-12-01T10:00:00", "timeZone": "Mars/Base"}}, fault.Invalid, "isn't a time zone"},
		{"createEvent", m{"calendar": work, "body": m{"summary": "x", "start": "2026-12-01", "end": "2026-12-01"}}, fault.Invalid, "end must be after"},
		{"createEvent", m{"calendar": work, "body": m{"summary": "x", "start": "2026-12-01", "recurrence": "FREQ=SOMETIMES"}}, fault.Invalid, "recurrence isn't valid"},
		{"createEvent", m{"calendar": work, "body": m{"summary": "x", "start": "2026-12-01", "color": "red"}}, fault.Invalid, "aren't valid"},
	} {
		e.refused(id, bad.op, bad.params, bad.kind, bad.words)
	}
	for _, x := range e.executions() {
		if strings.Contains(string(x.Params)+x.ErrorMessage, "love lace") {
			t.Errorf("the password is in the log: %+v", x)
		}
	}
}

// certified writes a certificate of localhost with its key, and returns the file and what trusts it.
func certified(t *testing.T) (file string, trust func(*Options)) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "localhost.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return file, func(o *Options) {
		o.HTTP = func(h safehttp.Options) *safehttp.Client {
			h.RootCAs = pool
			return safehttp.New(h)
		}
	}
}

// received is a message that the mail server of a test has accepted.
type received struct {
	From, User, Data string
	To               []string
	TLS              bool
}

// mailServer starts a mail server and returns its port and the messages that it accepts.
func mailServer(t *testing.T, cert, mode, mechanism string) (string, <-chan string) {
	t.Helper()
	line, later := server(t, "port ", "/usr/bin/python3", "testdata/submission.py", cert, mode, mechanism)
	return strings.TrimPrefix(line, "port "), later
}

func TestMailIsSentOnlyWithTLSAndASignIn(t *testing.T) {
	t.Parallel()
	cert, trust := certified(t)
	e := setup(t, trust)
	message := m{"body": m{"to": []string{"Grace Hopper <grace@example.org>"}, "bcc": []string{"hidden@example.org"}, "subject": "Grüße", "text": "First line\n.\nLast line: é\n"}}
	for _, x := range []struct{ name, mode, mechanism, scheme string }{{"starttls", "starttls", "PLAIN", "smtp"}, {"tls", "tls", "PLAIN", "smtps"}, {"login", "starttls", "LOGIN", "smtp"}} {
		port, messages := mailServer(t, cert, x.mode, x.mechanism)
		id := e.added("send-mail", x.scheme+"://localhost:"+port+"/ada@example.com")
		if want := "network:smtp(localhost:" + port + "/ada@example.com)"; !slices.Contains(e.rights(id), want) {
			t.Errorf("%s: the tool has the rights %q", x.name, e.rights(id))
		}
		dry, err := e.s.Run(e.ctx, RunParams{ManifestID: &id, Operation: "sendMail", Params: rawJSON(message), DryRun: true})
		if err != nil || dry.Request == nil || !strings.Contains(dry.Request.Body, "To: ") || strings.Contains(dry.Request.Body, "hidden@") {
			t.Errorf("%s: a dry run is %v %+v", x.name, err, dry)
		}
		e.signIn(id, "login", "ada@example.com", "wrong one")
		e.refused(id, "sendMail", message, fault.Denied, "refused the user name or the password")
		e.signIn(id, "login", "ada@example.com", "love lace")
		var sent struct{ MessageID string }
		e.result(id, "sendMail", message, &sent)
		e.refused(id, "sendMail", m{"body": m{"to": []string{"nobody@example.org"}, "subject": "x", "text": "x"}}, fault.Invalid, "550 no such user")
		e.refused(id, "sendMail", m{"body": m{"from": "Eve <eve@example.com>", "to": []string{"grace@example.org"}, "subject": "x", "text": "x"}}, fault.Denied, "may send only from ada@example.com")
		e.refused(id, "sendMail", m{"body": m{"to": []string{"grace@example.org\r\nRCPT TO:<eve@example.com>"}, "subject": "x", "text": "x"}}, fault.Invalid, "isn't an e-mail address")
		e.refused(id, "sendMail", m{"body": m{"to": []string{"grace@example.org"}, "subject": "x\r\nBcc: eve@example.com", "text": "x"}}, fault.Invalid, "line breaks")

		var got received
		if err := json.Unmarshal([]byte(<-messages), &got); err != nil {
			t.Fatal(err)
		}
		parsed, err := mail.ReadMessage(strings.NewReader(got.Data))
		if err != nil {
			t.Fatalf("%v in %s", err, got.Data)
		}
		subject, _ := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
		text, _ := io.ReadAll(quotedprintable.NewReader(parsed.Body))
		if !got.TLS || got.User != "ada@example.com" || got.From != "ada@example.com" || !slices.Equal(got.To, []string{"grace@example.org", "hidden@example.org"}) || subject != "Grüße" ||
			strings.TrimSpace(string(text)) != "First line\r\n.\r\nLast line: é" || parsed.Header.Get("Message-ID") != sent.MessageID || parsed.Header.Get("To") != `"Grace Hopper" <grace@example.org>` || strings.Contains(got.Data, "hidden") {
			t.Errorf("%s: %+v\nsubject %q, text %q", x.name, got, subject, text)
		}
		if _, err := e.s.Revoke(e.ctx, RevokeParams{ManifestID: id}); err != nil {
			t.Fatal(err)
		}
	}
}

// rights are the permissions that a tool asks for.
func (e *env) rights(id uuid.UUID) (out []string) {
	e.Helper()
	info, err := e.s.Subject(e.ctx, string(Kind), id.String())
	if err != nil {
		e.Fatal(err)
	}
	for _, w := range info.Declared {
		out = append(out, w.Text())
	}
	return out
}

func TestMailServerWithoutTLSOrWithAnotherCertificateGetsNothing(t *testing.T) {
	t.Parallel()
	cert, trust := certified(t)
	other, _ := certified(t)
	e := setup(t, trust)
	message := m{"body": m{"to": []string{"grace@example.org"}, "subject": "x", "text": "x"}}
	for _, x := range []struct{ cert, mode, scheme, words string }{{cert, "plain", "smtp", "offers no TLS"}, {other, "starttls", "smtp", "certificate of localhost isn't valid"}, {other, "tls", "smtps", "certificate of localhost isn't valid"}} {
		port, messages := mailServer(t, x.cert, x.mode, "PLAIN")
		id := e.added("send-mail", x.scheme+"://localhost:"+port+"/ada@example.com")
		e.signIn(id, "login", "ada@example.com", "love lace")
		e.refused(id, "sendMail", message, fault.Denied, x.words)
		if _, err := e.s.Revoke(e.ctx, RevokeParams{ManifestID: id}); err != nil {
			t.Fatal(err)
		}
		select {
		case line := <-messages:
			t.Errorf("the server has %s", line)
		default:
		}
	}
}

func TestMailServersAtPrivateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	dns := safehttptest.NewDNS(t)
	dns.Set("mail.example.com.", "10.0.0.7")
	e := setup(t, func(o *Options) {
		o.HTTP = func(h safehttp.Options) *safehttp.Client {
			h.Resolver = dns.Resolver()
			return safehttp.New(h)
		}
	})
	id := e.added("send-mail", "smtp://mail.example.com:587/ada@example.com")
	e.signIn(id, "login", "ada@example.com", "love lace")
	e.refused(id, "sendMail", m{"body": m{"to": []string{"grace@example.org"}, "subject": "x", "text": "x"}}, fault.Denied, "aren't allowed")
	for _, bad := range []string{"https://mail.example.com/ada@example.com", "smtp://mail.example.com/ada@example.com", "smtp://mail.example.com:587", "smtp://ada@mail.example.com:587/x@example.com", "smtp://10.0.0.7:587/ada@example.com", "smtp://mail.example.com:587/ada", "smtp://mail.example.com:587/a@b@c"} {
		x, err := e.s.InspectOpenAPI(e.ctx, InspectParams{URL: "catalog:send-mail"})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := e.s.ImportOpenAPI(e.ctx, ImportOpenAPIParams{SpecID: x.SpecID, Name: "other", Operations: []string{"post /messages"}, Server: bad}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v %+v", bad, err, r)
		}
	}
}
