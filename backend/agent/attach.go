package agent

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/providers"
	"helix/backend/storage"
)

const (
	maxAttachments    = 4
	maxAttachment     = 10 << 20
	maxAttached       = 40 << 20 // of one input, and of what one request holds
	maxAttachmentName = 160
	attachmentAge     = 7 * 24 * time.Hour // until a file that is not sent is forgotten
	imageTokens       = 1600
	handleLength      = 16 // of the hash that names a file toward models
)

// Attachment is a file that goes with an input. The model reads a text file as Text, which is its
// beginning; images and PDF files go to it as they are.
type Attachment struct {
	Blob  string `json:"blob"` // SHA-256
	Name  string `json:"name"`
	Mime  string `json:"mime"`
	Bytes int64  `json:"bytes"`
	Text  string `json:"text,omitempty"`
}

// AttachParams are a file: its content, or the token of an upload.
type AttachParams struct {
	Name   string `json:"name"`
	Base64 string `json:"base64,omitempty"`
	Path   string `json:"path,omitempty"` // the token of an upload or of a file dialog
}

// AttachResult is a file that can go with an input. Its type is that of its content.
type AttachResult struct {
	Blob  string `json:"blob"`
	Name  string `json:"name"`
	Mime  string `json:"mime"`
	Bytes int64  `json:"bytes"`
}

// AttachmentRef names a file of chat.attach, or one of an earlier message.
type AttachmentRef struct {
	Blob string `json:"blob"`
	Name string `json:"name,omitempty"` // default: the name that it was attached with
}

// Attach keeps a file for a message that will be sent. A file that is not sent is forgotten after a
// week.
func (s *Service) Attach(ctx context.Context, p AttachParams) (AttachResult, error) {
	data, err := attachedBytes(p)
	if err != nil {
		return AttachResult{}, err
	}
	out := AttachResult{Name: attachmentName(p.Name), Bytes: int64(len(data))}
	if out.Mime = attachmentType(data); out.Mime == "" {
		return AttachResult{}, fault.Invalidf("%s can't be attached. Attach an image (PNG, JPEG, GIF or WebP), a PDF or a text file in UTF-8.", out.Name)
	}
	ref, err := s.db.Blobs().PutBytes(ctx, data)
	if err != nil {
		return AttachResult{}, err
	}
	out.Blob = ref.String()
	return out, s.db.Write(ctx, func(tx *storage.Tx) error {
		_, err := tx.Exec(`INSERT INTO chat_attachments (user_id, sha256, name, mime, bytes, at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET name = excluded.name, at = excluded.at`,
			identity.UserID(ctx), "sha256:"+out.Blob, out.Name, out.Mime, out.Bytes, tx.Now)
		return err
	})
}

// attachedBytes reads what is attached.
func attachedBytes(p AttachParams) (data []byte, err error) {
	tooLarge := fault.Invalidf("%s is larger than %d MB.", attachmentName(p.Name), maxAttachment>>20)
	switch {
	case (p.Base64 == "") == (p.Path == ""):
		return nil, fault.Invalidf("Give base64 or path, and not an empty file.")
	case p.Path != "":
		f, err := os.Open(p.Path)
		if err != nil {
			return nil, fault.NotFoundf("The file is not there any more. Attach it again.")
		}
		defer f.Close()
		data, err = io.ReadAll(io.LimitReader(f, maxAttachment+1))
		if err != nil {
			return nil, fault.Unavailablef("Couldn't read %s.", attachmentName(p.Name)).WithCause(err)
		}
	case base64.StdEncoding.DecodedLen(len(p.Base64)) > maxAttachment+2:
		return nil, tooLarge
	default:
		if data, err = base64.StdEncoding.DecodeString(p.Base64); err != nil {
			return nil, fault.Invalidf("base64 is not valid.")
		}
	}
	switch {
	case len(data) > maxAttachment:
		return nil, tooLarge
	case len(data) == 0:
		return nil, fault.Invalidf("%s is empty.", attachmentName(p.Name))
	}
	return data, nil
}

// attachmentName is a name as it is shown and told to models: without folders and control characters.
func attachmentName(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, path.Base(strings.ReplaceAll(name, `\`, "/")))
	name, _ = clip(strings.TrimSpace(name), maxAttachmentName)
	if name == "." || name == "/" {
		return "file"
	}
	return cmp.Or(name, "file")
}

// attachmentType is the type of a file by its content; "": no model can take it.
func attachmentType(data []byte) string {
	kind, _, _ := strings.Cut(http.DetectContentType(data), ";")
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf":
		return kind
	}
	if strings.HasPrefix(kind, "text/") && utf8.Valid(data) {
		return kind
	}
	return ""
}

func isImage(mime string) bool { return strings.HasPrefix(mime, "image/") }
func isText(mime string) bool  { return strings.HasPrefix(mime, "text/") }

// handle names the file toward models.
func (a Attachment) handle() string { return a.Blob[:min(len(a.Blob), handleLength)] }

// attachments are the files of an input, checked for the model that will read them.
func (s *Service) attachments(ctx context.Context, l *live, refs []AttachmentRef, model providers.ModelRef) ([]Attachment, error) {
	switch {
	case len(refs) == 0:
		return nil, nil
	case len(refs) > maxAttachments:
		return nil, fault.Invalidf("%s is one file too many: a message has at most %d.", attachmentName(refs[maxAttachments].Name), maxAttachments)
	}
	out := make([]Attachment, len(refs))
	var total int64
	for i, r := range refs {
		a, err := s.attachment(ctx, r)
		if err != nil {
			return nil, err
		}
		if total += a.Bytes; total > maxAttached {
			return nil, fault.Invalidf("%s makes the files of this message larger than %d MB together. Send it on its own.", a.Name, maxAttached>>20)
		}
		if isText(a.Mime) {
			if a.Text, err = s.attachedText(ctx, a); err != nil {
				return nil, err
			}
		}
		out[i] = a
	}
	l.mu.Lock()
	ask := providers.Request{Role: l.state.role(), Model: cmp.Or(model, l.state.Model)}
	l.mu.Unlock()
	info, err := s.o.Models.Describe(ctx, ask)
	if err != nil { // the turn will say what is wrong with the model
		return out, nil
	}
	for _, a := range out {
		if isImage(a.Mime) && !info.Caps.Images || !isImage(a.Mime) && !isText(a.Mime) && !info.Caps.Files {
			return nil, fault.Invalidf("%s can't be sent: %s doesn't take files of the type %s. Choose another model, or remove the file.", a.Name, cmp.Or(info.Name, string(info.Ref)), a.Mime)
		}
	}
	return out, nil
}

// attachment finds a file that the caller has attached, now or to an earlier message.
func (s *Service) attachment(ctx context.Context, r AttachmentRef) (a Attachment, err error) {
	a.Blob = strings.ToLower(r.Blob)
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT name, mime, bytes FROM chat_attachments WHERE user_id = ?1 AND sha256 = ?2
			UNION ALL SELECT name, mime, bytes FROM session_blobs WHERE user_id = ?1 AND sha256 = ?2 AND direction = 'in' LIMIT 1`,
			identity.UserID(ctx), "sha256:"+a.Blob).Scan(&a.Name, &a.Mime, &a.Bytes)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return a, fault.NotFoundf("%s is not attached any more. Attach it again.", attachmentName(r.Name))
	}
	if r.Name != "" {
		a.Name = attachmentName(r.Name)
	}
	return a, err
}

// attachedText is the beginning of a text file, without secrets.
func (s *Service) attachedText(ctx context.Context, a Attachment) (string, error) {
	data, err := s.readBlob(a.Blob)
	if err != nil {
		return "", err
	}
	text, cut := clip(s.o.Scrub(ctx, strings.TrimPrefix(string(data), "\xef\xbb\xbf")), toolOutputMax)
	if cut {
		text += truncatedNote(a.Bytes, a.handle())
	}
	return text, nil
}

// truncatedNote says how to read on.
func truncatedNote(size int64, handle string) string {
	return fmt.Sprintf("\n… truncated, original size %d bytes, read more with result_read(%q, offset)", size, handle)
}

// parts are the file as the model reads it. What a file says is data: the person may not have written it.
func (a Attachment) parts() []providers.Part {
	if isText(a.Mime) {
		return []providers.Part{providers.TextPart("\n\n" + fence("attached file "+a.Name, a.Text))}
	}
	kind := providers.PartFile
	if isImage(a.Mime) {
		kind = providers.PartImage
	}
	return []providers.Part{
		providers.TextPart(fmt.Sprintf("\n\nAttached: %q, %s, %d bytes, handle %s", a.Name, a.Mime, a.Bytes, a.handle())),
		{Kind: kind, Name: a.Name, MediaType: a.Mime, Blob: a.Blob},
	}
}

// shown is the file in the transcript.
func (a Attachment) shown() Part {
	kind := PartFile
	if isImage(a.Mime) {
		kind = PartImage
	}
	return Part{Kind: kind, Blob: a.Blob, Name: a.Name, Mime: a.Mime, Bytes: a.Bytes}
}

// said is the text of the person with the names of what they attached, for summaries.
func (x Exchange) said() string {
	text := x.Text
	for _, a := range x.Files {
		text += fmt.Sprintf("\n[attached %q, handle %s]", a.Name, a.handle())
	}
	return strings.TrimSpace(text)
}

// keepAttachments makes the files of an input belong to the session.
func (s *Service) keepAttachments(tx *storage.Tx, l *live, list []Attachment) error {
	for _, a := range list {
		if err := s.keepBlob(tx, l, a.Blob, a.Name, a.Mime, a.Bytes, "in"); err != nil {
			return err
		}
	}
	return nil
}

// withFiles puts the content of files into a request that was planned with their names. The newest
// come first: a request holds 40 MB of them; the model gets only the names of the rest.
func (s *Service) withFiles(q providers.Request) providers.Request {
	left := maxAttached
	q.Messages = slices.Clone(q.Messages)
	for i := len(q.Messages) - 1; i >= 0; i-- {
		m := &q.Messages[i]
		if !slices.ContainsFunc(m.Parts, func(p providers.Part) bool { return p.Blob != "" }) {
			continue
		}
		m.Parts = slices.Clone(m.Parts)
		for j := len(m.Parts) - 1; j >= 0; j-- {
			p := &m.Parts[j]
			if p.Blob == "" {
				continue
			}
			data, err := s.readBlob(p.Blob)
			if left -= len(data); err != nil || left < 0 {
				*p = providers.TextPart(fmt.Sprintf("[%q is left out: it was sent long ago or is not stored any more]", p.Name))
				continue
			}
			p.Data, p.Blob = data, ""
		}
	}
	return q
}

// AttachmentRetention bounds how long files are kept that were attached and not sent.
func AttachmentRetention() storage.Retention {
	return storage.Retention{Table: "chat_attachments", Time: "at", Key: "user_id, sha256", Age: attachmentAge}
}

// blobOf finds a file of a session by the beginning of its hash.
func (s *Service) blobOf(ctx context.Context, session uuid.UUID, handle string) (a Attachment, err error) {
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT substr(sha256, 8), name, mime, bytes FROM session_blobs WHERE session_id = ? AND user_id = ? AND sha256 GLOB ? LIMIT 1`,
			session, identity.UserID(ctx), "sha256:"+strings.ToLower(handle)+"*").Scan(&a.Blob, &a.Name, &a.Mime, &a.Bytes)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return a, fault.NotFoundf("This conversation has no file or result %q.", handle)
	}
	return a, err
}
