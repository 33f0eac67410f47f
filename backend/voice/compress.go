package voice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"

	"helix/backend/audio"
	"helix/backend/storage"
)

// settled is how old a recording is before it is compressed, so that a client which has just recorded it
// gets the WAV file.
const settled = 10 * time.Minute

// compress stores the sound of the microphone's recordings as FLAC, if that is smaller and decodes to the
// same samples. The WAV file is pruned like any other that no row refers to.
func (s *Service) compress(ctx context.Context, now time.Time) error {
	type recording struct {
		id  uuid.UUID
		ref storage.Ref
	}
	var list []recording
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT id, audio_sha256 FROM voice_recordings WHERE source IN ('capture', 'command') AND format = 'wav' AND audio_format = '' AND audio_sha256 IS NOT NULL
				AND sound_deleted_at IS NULL AND deleted_at IS NULL AND created_at <= ?`, now.Add(-settled)).Each(func(row storage.Row) (err error) {
			var r recording
			var text string
			if err := row.Scan(&r.id, &text); err != nil {
				return err
			}
			if r.ref, err = blobRef(text); err == nil {
				list = append(list, r)
			}
			return err
		})
	}); err != nil {
		return err
	}
	for _, r := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		ref, format, err := s.pack(ctx, r.ref)
		if err != nil {
			s.o.Logger.Warn("compress a recording", "id", r.id, "err", err)
			continue
		}
		s.crashPoint("packed")
		if err := s.db.Write(ctx, func(tx *storage.Tx) error {
			_, err := tx.Exec(`UPDATE voice_recordings SET audio_sha256 = ?1, hub_audio = iif(hub_audio IS NULL, NULL, ?1), audio_format = ?2, updated_at = ?5 WHERE id = ?3 AND audio_sha256 = ?4`, blobPrefix+ref.String(), format, r.id, blobPrefix+r.ref.String(), tx.Now)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// pack stores a FLAC copy of a recording. If that is not smaller, it returns the recording itself.
func (s *Service) pack(ctx context.Context, of storage.Ref) (ref storage.Ref, format string, err error) {
	if err := os.MkdirAll(s.tempDir(), 0o700); err != nil {
		return ref, "", fmt.Errorf("folder for decoded recordings: %w", err)
	}
	f, err := os.CreateTemp(s.tempDir(), "*.flac")
	if err != nil {
		return ref, "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	in, err := s.db.Blobs().Open(of)
	if err != nil {
		return ref, "", err
	}
	defer in.Close()
	if err := audio.EncodeFLAC(f, in); err != nil {
		return ref, "", err
	}
	size, err := in.Seek(0, io.SeekEnd)
	if err != nil {
		return ref, "", err
	}
	if st, err := f.Stat(); err != nil || st.Size() >= size {
		return of, "wav", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return ref, "", err
	}
	if ref, err = s.db.Blobs().Put(ctx, f); err != nil {
		return ref, "", err
	}
	stored, err := s.db.Blobs().Open(ref)
	if err != nil {
		return ref, "", err
	}
	defer stored.Close()
	again, err := s.db.Blobs().Open(of)
	if err != nil {
		return ref, "", err
	}
	defer again.Close()
	same, err := audio.SameSamples(stored, again)
	if err != nil {
		return ref, "", err
	}
	if !same {
		return ref, "", errors.New("the FLAC file differs from the recording")
	}
	if peaks, err := os.ReadFile(s.peaksFile(of)); err == nil { // the waveform is the same
		if err := os.WriteFile(s.peaksFile(ref), peaks, 0o600); err != nil {
			s.o.Logger.Warn("keep the waveform", "err", err)
		}
	}
	return ref, "flac", nil
}
