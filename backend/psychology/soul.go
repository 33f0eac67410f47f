package psychology

import (
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"helix/backend/audit"
	"helix/backend/fault"
	"helix/backend/identity"
	"helix/backend/storage"
)

// soulFile is the path of the soul in the folder of the person's own files.
const soulFile = "soul/HELIX_SOUL.md"

const (
	maxSoul   = 64 << 10
	soulShown = 8000 // characters included in a prompt
)

// soulTemplate is the soul of a new installation.
//
//go:embed soul.md
var soulTemplate string

// GetSoul returns the soul: what the assistant should know about the person and how it should
// speak. If the person has edited the file, the new text becomes a revision.
func (s *Service) GetSoul(ctx context.Context, _ struct{}) (out Soul, err error) {
	if err := s.syncSoulFile(ctx); err != nil {
		return out, err
	}
	return out, s.db.Read(ctx, func(tx *storage.Tx) error {
		out, err = s.soul(tx)
		return err
	})
}

// syncSoulFile stores the content of the file as a revision if the person has edited it. An
// unusable file is ignored; a file with an earlier revision is rewritten.
func (s *Service) syncSoulFile(ctx context.Context) error {
	text, there := s.readSoulFile(ctx)
	if !there {
		return nil
	}
	var now Soul
	if err := s.db.Read(ctx, func(tx *storage.Tx) (err error) { now, err = s.soul(tx); return err }); err != nil || hashText(text) == now.sha {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		old, err := s.revisions(tx, 50, 0)
		if err != nil {
			return err
		}
		for _, r := range old {
			if r.Text == text { // the file is out of date: another device has changed the soul
				if now, err = s.soul(tx); err != nil {
					return err
				}
				return s.writeSoulFile(ctx, now.Text)
			}
		}
		_, err = s.setSoul(tx, text, "file")
		return err
	})
}

// ownsFiles reports whether the caller owns the folder of own files.
func (s *Service) ownsFiles(ctx context.Context) bool {
	return s.o.Owner == nil || s.o.Owner() == identity.UserID(ctx)
}

func errNotOwner() error {
	return fault.Deniedf("The folder of files belongs to another user of this device.")
}

// UpdateSoul replaces the soul. Only a person in a session of their own may do that.
func (s *Service) UpdateSoul(ctx context.Context, p UpdateSoulParams) (out Soul, err error) {
	caller, _ := identity.From(ctx)
	switch caller.Client {
	case identity.ClientWindow, identity.ClientBrowser, identity.ClientTerminal:
	default:
		refused := fault.Deniedf("Only you can change the soul, in the window, the browser or the terminal. Nothing was changed.")
		return out, errors.Join(refused, s.db.Write(ctx, func(tx *storage.Tx) error {
			return audit.Append(tx, audit.Entry{Action: "psychology.update_soul", SubjectKind: "soul", SubjectID: "soul", Outcome: audit.Denied})
		}))
	}
	if len(p.Text) > maxSoul || !utf8.ValidString(p.Text) {
		return out, fault.InvalidField("text", fault.CodeInvalid, "The soul is UTF-8 text of at most 64 KiB. The old text was kept.")
	}
	if err := s.syncSoulFile(ctx); err != nil {
		return out, err
	}
	return out, s.db.Write(ctx, func(tx *storage.Tx) error {
		now, err := s.soul(tx)
		if err != nil {
			return err
		}
		if p.Version != now.Version {
			return fault.Conflictf("The soul has changed since you opened it. Nothing was overwritten.").WithDetails(now)
		}
		if out, err = s.setSoul(tx, p.Text, "person"); err != nil {
			return err
		}
		return s.writeSoulFile(ctx, p.Text)
	})
}

// SoulHistory lists the revisions of the soul, newest first.
func (s *Service) SoulHistory(ctx context.Context, p PageParams) (out SoulHistoryResult, err error) {
	if err := storage.CheckPage(&p.Limit, &p.Offset, 20, 100); err != nil {
		return out, err
	}
	return out, s.db.Read(ctx, func(tx *storage.Tx) error {
		if err := tx.QueryRow(`SELECT count(*) FROM soul_revisions WHERE user_id = ? AND deleted_at IS NULL`, identity.UserID(ctx)).Scan(&out.Total); err != nil {
			return err
		}
		out.Revisions, err = s.revisions(tx, p.Limit, p.Offset)
		return err
	})
}

func (s *Service) revisions(tx *storage.Tx, limit, offset int) ([]SoulRevision, error) {
	return storage.Collect(tx.Select(`SELECT id, version, text, at FROM soul_revisions WHERE user_id = ? AND deleted_at IS NULL ORDER BY version DESC, id DESC LIMIT ? OFFSET ?`, identity.UserID(tx.Context()), limit, offset),
		func(r storage.Row) (v SoulRevision, err error) {
			var id uuid.UUID
			var sealed []byte
			if err := r.Scan(&id, &v.Version, &sealed, storage.Time(&v.At)); err != nil {
				return v, err
			}
			plain, err := s.db.Keys().Unseal("soul_revisions", "text", id, sealed)
			v.Text = string(plain)
			return v, err
		})
}

// soul returns the stored soul. Version 0 is the template.
func (s *Service) soul(tx *storage.Tx) (out Soul, err error) {
	out = Soul{Text: soulTemplate, Path: filepath.Join(s.o.Dir, filepath.FromSlash(soulFile)), sha: hashText(soulTemplate), Shown: soulShown}
	var id uuid.UUID
	var sealed []byte
	var at time.Time
	err = tx.QueryRow(`SELECT id, text, version, sha256, updated_at FROM soul_documents WHERE user_id = ? AND deleted_at IS NULL`, identity.UserID(tx.Context())).Scan(&id, &sealed, &out.Version, &out.sha, storage.Time(&at))
	if errors.Is(err, sql.ErrNoRows) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	plain, err := s.db.Keys().Unseal("soul_documents", "text", id, sealed)
	out.Text, out.UpdatedAt = string(plain), &at
	return out, err
}

func (s *Service) setSoul(tx *storage.Tx, text, origin string) (Soul, error) {
	user := identity.UserID(tx.Context())
	id, revision := uuid.NewSHA1(s.db.IDSpace(user), []byte("soul")), storage.NewID()
	sealed, err := s.db.Keys().Seal("soul_documents", "text", id, []byte(text))
	if err != nil {
		return Soul{}, err
	}
	kept, err := s.db.Keys().Seal("soul_revisions", "text", revision, []byte(text))
	if err != nil {
		return Soul{}, err
	}
	var version int64
	if err := tx.QueryRow(`INSERT INTO soul_documents (id, user_id, text, sha256, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)
		ON CONFLICT (id) DO UPDATE SET text = excluded.text, sha256 = excluded.sha256, version = version + 1, updated_at = excluded.updated_at, deleted_at = NULL RETURNING version`,
		id, user, sealed, hashText(text), tx.Now).Scan(&version); err != nil {
		return Soul{}, err
	}
	if _, err := tx.Exec(`INSERT INTO soul_revisions (id, user_id, version, text, at, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?5)`, revision, user, version, kept, tx.Now); err != nil {
		return Soul{}, err
	}
	if err := audit.Append(tx, audit.Entry{Action: "psychology.update_soul", SubjectKind: "soul", SubjectID: "soul", Details: map[string]any{"version": version, "origin": origin}}); err != nil {
		return Soul{}, err
	}
	s.changed(tx, user, nil)
	return s.soul(tx)
}

func hashText(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// root opens the folder of the person's own files. No path can escape it, not even by a symbolic link.
func (s *Service) root(create bool) (*os.Root, error) {
	if create {
		if err := os.MkdirAll(s.o.Dir, 0o700); err != nil {
			return nil, fault.Unavailablef("Couldn't create the folder %s.", s.o.Dir).WithCause(err)
		}
	}
	r, err := os.OpenRoot(s.o.Dir)
	if err != nil {
		return nil, fault.Unavailablef("Couldn't open the folder %s.", s.o.Dir).WithCause(err)
	}
	return r, nil
}

// readSoulFile reads the file of the soul. there is false if it is missing or unusable.
func (s *Service) readSoulFile(ctx context.Context) (text string, there bool) {
	if !s.ownsFiles(ctx) {
		return "", false
	}
	r, err := s.root(false)
	if err != nil {
		return "", false
	}
	defer r.Close()
	b, err := readSmall(r, soulFile, maxSoul)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.o.Logger.Warn("the file of the soul can't be used", "err", err)
	}
	return string(b), err == nil && utf8.Valid(b)
}

func (s *Service) writeSoulFile(ctx context.Context, text string) error {
	if !s.ownsFiles(ctx) {
		return nil
	}
	r, err := s.root(true)
	if err != nil {
		return err
	}
	defer r.Close()
	return writeFile(r, soulFile, []byte(text))
}

// readSmall reads a regular file of at most limit bytes.
func readSmall(r *os.Root, name string, limit int64) ([]byte, error) {
	st, err := r.Stat(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > limit {
		return nil, fault.Limitf("%s is no file of at most %d KiB.", name, limit>>10)
	}
	return r.ReadFile(filepath.FromSlash(name))
}

// writeFile replaces a file atomically: after a crash it has either the old or the new content.
func writeFile(r *os.Root, name string, content []byte) (err error) {
	name = filepath.FromSlash(name)
	if err := r.MkdirAll(filepath.FromSlash(path.Dir(filepath.ToSlash(name))), 0o700); err != nil {
		return fault.Unavailablef("Couldn't write %s.", name).WithCause(err)
	}
	tmp := name + ".tmp"
	f, err := r.OpenFile(tmp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fault.Unavailablef("Couldn't write %s.", name).WithCause(err)
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = r.Rename(tmp, name)
	}
	if err != nil {
		return fault.Unavailablef("Couldn't write %s. The old file was kept.", name).WithCause(errors.Join(err, r.Remove(tmp)))
	}
	return nil
}
