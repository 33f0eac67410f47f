package voice

import (
	"context"
	"time"

	"github.com/google/uuid"

	"helix/backend/storage"
)

const (
	retainEvery = time.Hour
	trashAge    = 30 * 24 * time.Hour
)

// retain moves the sound of transcribed recordings to the trash according to the settings of each
// user, and removes it after 30 days. Until then, pinning the memo restores it. Texts and recordings that are pinned, not transcribed or of
// another device are never touched.
func (s *Service) retain(ctx context.Context, now time.Time) error {
	var users []uuid.UUID
	if err := s.db.Read(ctx, func(tx *storage.Tx) error {
		return tx.Select(`SELECT user_id FROM voice_settings WHERE deleted_at IS NULL AND retain_audio <> ?`, retainForever).Each(func(row storage.Row) error {
			var u uuid.UUID
			err := row.Scan(&u)
			users = append(users, u)
			return err
		})
	}); err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx *storage.Tx) error {
		if err := shareAllSound(tx); err != nil {
			return err
		}
		for _, u := range users {
			conf, err := settings(tx, u)
			if err != nil {
				return err
			}
			age, ok := retention(conf.RetainAudio)
			if !ok || age == 0 {
				continue
			}
			// The transcript must be of an engine that has listened to the sound, or of a person.
			if _, err := tx.Exec(`UPDATE voice_recordings AS r SET sound_deleted_at = ?1, hub_audio = NULL, updated_at = ?1 WHERE r.user_id = ?2 AND r.deleted_at IS NULL AND r.audio_sha256 IS NOT NULL AND r.sound_deleted_at IS NULL
					AND r.pinned = 0 AND r.recorded_at <= ?3 AND EXISTS (`+currentOf+`)
					AND EXISTS (SELECT 1 FROM voice_memos m WHERE m.recording_id = r.id AND m.transcription_status = 'completed')
					AND NOT EXISTS (SELECT 1 FROM voice_processing_queue q WHERE q.recording_id = r.id AND q.status <> 'completed')`,
				now, u, now.Add(-max(age, 0))); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`UPDATE voice_recordings SET audio_sha256 = NULL, sound_deleted_at = NULL, updated_at = ?1 WHERE sound_deleted_at < ?2 AND pinned = 0`, now, now.Add(-trashAge))
		return err
	})
}

// shareSound puts the recordings of this device on the hub if the user's setting says so, and removes all of
// them from it otherwise. The rows name the files, which the hub keeps as long as a row does.
func shareSound(tx *storage.Tx, user uuid.UUID, save bool) error {
	if !save {
		_, err := tx.Exec(`UPDATE voice_recordings SET hub_audio = NULL, updated_at = ?1 WHERE user_id = ?2 AND hub_audio IS NOT NULL`, tx.Now, user)
		return err
	}
	_, err := tx.Exec(`UPDATE voice_recordings SET hub_audio = audio_sha256, updated_at = ?1 WHERE user_id = ?2 AND hub_audio IS NOT audio_sha256
		AND audio_sha256 IS NOT NULL AND sound_deleted_at IS NULL AND deleted_at IS NULL`, tx.Now, user)
	return err
}

// shareAllSound is shareSound for all users: the setting may have been changed on another device.
func shareAllSound(tx *storage.Tx) error {
	users, err := storage.Collect(tx.Select(`SELECT user_id FROM voice_settings WHERE deleted_at IS NULL`), storage.RowTo[uuid.UUID])
	if err != nil {
		return err
	}
	for _, u := range users {
		conf, err := settings(tx, u)
		if err != nil {
			return err
		}
		if err := shareSound(tx, u, conf.SaveAudio); err != nil {
			return err
		}
	}
	return nil
}

// retainLoop applies retention and compresses recordings until ctx is done.
func (s *Service) retainLoop(ctx context.Context) error {
	t := time.NewTicker(retainEvery)
	defer t.Stop()
	for {
		if err := s.retain(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.o.Logger.Error("retention of recordings", "err", err)
		}
		if err := s.compress(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.o.Logger.Error("compress recordings", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
