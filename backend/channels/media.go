package channels

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"helix/backend/fault"
)

const (
	maxMedia     = 20 << 20 // bytes of a file
	maxMediaList = 10       // files of a message
	maxMediaName = 100      // bytes of a name
)

// storedMedia is a file of a message in channel_inbox.
type storedMedia struct {
	Name      string        `json:"name"`
	Blob      string        `json:"blob,omitempty"`     // of an image or a document
	Recording uuid.NullUUID `json:"recording,omitzero"` // of sound
	Problem   string        `json:"problem,omitempty"`  // why it isn't there, for its sender
}

// keepMedia stores the files of a message of an allowed sender.
func (s *Service) keepMedia(ctx context.Context, list []Media) (out []storedMedia) {
	for i, m := range list {
		if i >= maxMediaList {
			return append(out, storedMedia{Problem: fmt.Sprintf("A message can have %d files. Nothing was read.", maxMediaList)})
		}
		out = append(out, s.keepFile(ctx, m))
	}
	return out
}

func (s *Service) keepFile(ctx context.Context, m Media) storedMedia {
	kept := storedMedia{Name: mediaName(m.Name)}
	tooLarge := kept.Name + " is too large: a file can have 20 MB. Nothing was read."
	switch {
	case m.Fetch == nil || s.o.Files == nil:
		kept.Problem = textNoFiles
		return kept
	case m.Bytes > maxMedia:
		kept.Problem = tooLarge
		return kept
	}
	data, err := m.Fetch(ctx)
	switch {
	case fault.Is(err, fault.Limit) || len(data) > maxMedia:
		kept.Problem = tooLarge
		return kept
	case err == nil && (m.Audio || isSound(data)):
		kept.Recording.UUID, err = s.o.Files.Record(ctx, kept.Name, data)
		kept.Recording.Valid = err == nil
	case err == nil:
		kept.Blob, err = s.o.Files.Attach(ctx, kept.Name, data)
	}
	switch {
	case fault.Is(err, fault.Invalid):
		kept.Problem = fault.As(err).Message
	case err != nil:
		s.log.Warn("a file from a channel couldn't be loaded", "err", err)
		kept.Problem = kept.Name + " couldn't be loaded. Send it again."
	}
	return kept
}

// isSound looks at the content, whatever the file is called.
func isSound(data []byte) bool {
	kind := http.DetectContentType(data)
	return strings.HasPrefix(kind, "audio/") || kind == "application/ogg"
}

// withMedia returns the files of a message for the agent, and its text with what was said in recordings.
// An error of the kind Limit means that a recording is not transcribed yet.
func (s *Service) withMedia(ctx context.Context, text string, list []storedMedia) (string, []StoredFile, error) {
	var files []StoredFile
	for _, m := range list {
		if !m.Recording.Valid {
			files = append(files, StoredFile{m.Blob, m.Name})
			continue
		}
		said, done, err := s.o.Files.Transcript(ctx, m.Recording.UUID)
		switch {
		case err != nil:
			return "", nil, fault.Invalidf("%s couldn't be transcribed: %s", m.Name, fault.As(err).Message)
		case !done:
			return "", nil, fault.Limitf("%s is not transcribed yet.", m.Name)
		}
		text = strings.TrimSpace(text + "\n\n" + said)
	}
	return text, files, nil
}

// mediaName returns the last part of a declared name, without control characters.
func mediaName(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
	if name = strings.ToValidUTF8(name[:min(len(name), maxMediaName)], ""); name == "" || name == "." || name == ".." || name == "/" {
		return "file"
	}
	return name
}

// mediaProblems says which files of a message can't be used; "": all can.
func mediaProblems(list []storedMedia) string {
	var lines []string
	for _, m := range list {
		if m.Problem != "" {
			lines = append(lines, m.Problem)
		}
	}
	return strings.Join(lines, "\n")
}
