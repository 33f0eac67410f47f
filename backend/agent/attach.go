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
	maxAttached       = 40 << 20 // per input, and per request to a model
	maxAttachmentName = 160
	attachmentAge     = 7 * 24 * time.Hour // after which an unsent file is dropped
	imageTokens       = 1600
	handleLength      = 16 // hash digits that identify a file to models
)

// Attachment is a file attached to an input. The model reads the beginning of a text file, which is
// Text; images and PDF files are sent unchanged.
type Attachment struct {
	Blob  string `json:"blob"` // SHA-256
	Name  string `json:"name"`
	Mime  string `json:"mime"`
	Bytes int64  `json:"bytes"`
	Text  string `json:"text,omitempty"`
}

// AttachParams is a file, given by its content or by the token of an upload.
type AttachParams struct {
	Name   string `json:"name"`
	Base64 string `json:"base64,omitempty"`
	Path   string `json:"path,omitempty"` // the token of an upload or of a file dialog
}

// AttachResult is a file that can be attached to an input. Its type is detected from its content.
type AttachResult struct {
	Blob  string `json:"blob"`
	Name  string `json:"name"`
	Mime  string `json:"mime"`
	Bytes int64  `json:"bytes"`
}

// AttachmentRef names a file from chat.attach or from an earlier message.
type AttachmentRef struct {
	Blob string `json:"blob"`
	Name string `json:"name,omitempty"` // default: its name when it was attached
}

// Attach stores a file for a message to be sent later. A file that is not sent is dropped after a
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

// attachedBytes reads the content that p names.
func attachedBytes(p AttachParams) (data []byte, err error) {
	tooLarge := fault.Invalidf("%s is larger than %d MB.", attachmentName(p.Name), maxAttachment>>20)
	switch {
	case (p.Base64 == "") == (p.Path == ""):
		return nil, fault.Invalidf("Give base64 or path, and not an empty file.")
	case p.Path != "":
		f, err := os.Open(p.Path)
		if err != nil {
			return nil, fault.NotFoundf("The file no longer exists. Attach it again.")
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

// attachmentName returns name as it is shown to people and models: without folders and control
// characters.
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

// attachmentType returns the media type of data, or "" if no model accepts it.
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

// handle returns the name by which models refer to the file.
func (a Attachment) handle() string { return a.Blob[:min(len(a.Blob), handleLength)] }

// attachments returns the files of an input, after checking that the model that will read them
// accepts them.
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
	if err != nil { // the turn reports the problem with the model
		return out, nil
	}
	for _, a := range out {
		if isImage(a.Mime) && !info.Caps.Images || !isImage(a.Mime) && !isText(a.Mime) && !info.Caps.Files {
			return nil, fault.Invalidf("%s can't be sent: %s doesn't take files of the type %s. Choose another model, or remove the file.", a.Name, cmp.Or(info.Name, string(info.Ref)), a.Mime)
		}
	}
	return out, nil
}

// attachment finds a file that the caller has attached, either just now or to an earlier message.
func (s *Service) attachment(ctx context.Context, r AttachmentRef) (a Attachment, err error) {
	a.Blob = strings.ToLower(r.Blob)
	err = s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.QueryRow(`SELECT name, mime, bytes FROM chat_attachments WHERE user_id = ?1 AND sha256 = ?2
			UNION ALL SELECT name, mime, bytes FROM session_blobs WHERE user_id = ?1 AND sha256 = ?2 AND direction = 'in' LIMIT 1`,
			identity.UserID(ctx), "sha256:"+a.Blob).Scan(&a.Name, &a.Mime, &a.Bytes)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return a, fault.NotFoundf("%s is no longer attached. Attach it again.", attachmentName(r.Name))
	}
	if r.Name != "" {
		a.Name = attachmentName(r.Name)
	}
	return a, err
}

// attachedText returns the beginning of a text file, with secrets removed.
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

// truncatedNote tells the model how to read the rest of a file.
func truncatedNote(size int64, handle string) string {
	return fmt.Sprintf("\n… truncated, original size %d bytes, read more with result_read(%q, offset)", size, handle)
}

// parts returns the file as parts of a message to the model. Its content is marked as data, because
// the person may not have written it.
func (a Attachment) parts(b boundary) []providers.Part {
	if isText(a.Mime) {
		return []providers.Part{providers.TextPart("\n\n" + b.fence("attached file "+a.Name, a.Text))}
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

// shown returns the file as a part of the transcript.
func (a Attachment) shown() Part {
	kind := PartFile
	if isImage(a.Mime) {
		kind = PartImage
	}
	return Part{Kind: kind, Blob: a.Blob, Name: a.Name, Mime: a.Mime, Bytes: a.Bytes}
}

// said returns the person's text with the names of the attached files, for summaries.
func (x Exchange) said() string {
	text := x.Text
	for _, a := range x.Files {
		text += fmt.Sprintf("\n[attached %q, handle %s]", a.Name, a.handle())
	}
	return strings.TrimSpace(text)
}

// keepAttachments links the files of an input to the session, so that they are kept with it.
func (s *Service) keepAttachments(tx *storage.Tx, l *live, list []Attachment) error {
	for _, a := range list {
		if err := s.keepBlob(tx, l, a.Blob, a.Name, a.Mime, a.Bytes, "in"); err != nil {
			return err
		}
	}
	return nil
}

// withFiles adds the contents of files to a request that was planned with their names only. The
// newest files come first, up to 40 MB in total; the model gets only the names of the rest.
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

// AttachmentRetention limits how long files that were attached but never sent are kept.
func AttachmentRetention() storage.Retention {
	return storage.Retention{Table: "chat_attachments", Time: "at", Key: "user_id, sha256", Age: attachmentAge}
}

// blobOf finds a file of a session by a prefix of its hash.
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
