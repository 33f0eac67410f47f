package voice

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"helix/backend/fault"
	"helix/backend/storage"
)

// denoised returns a WAV file with the sound of a recording without background noise. No row refers to
// it, so that it is deleted like an export, and made again when it is needed.
func (s *Service) denoised(ctx context.Context, of storage.Ref) (ref storage.Ref, err error) {
	if err := s.noise.Available(); err != nil {
		return ref, err
	}
	known := filepath.Join(s.o.Dir, "denoised", of.String()) // contains the reference to the result
	if b, err := os.ReadFile(known); err == nil {
		if ref, err = blobRef(string(b)); err == nil && s.db.Blobs().Has(ref) {
			return ref, nil
		}
	}
	in, err := s.db.Blobs().Open(of)
	if err != nil {
		return ref, err
	}
	defer in.Close()
	d, err := s.decode(ctx, in, true)
	if err != nil {
		return ref, fault.As(err)
	}
	defer os.Remove(d.Path)
	f, err := os.Open(d.Path)
	if err != nil {
		return ref, fmt.Errorf("denoised recording: %w", err)
	}
	defer f.Close()
	if ref, err = s.db.Blobs().Put(ctx, f); err != nil {
		return ref, err
	}
	if err := os.MkdirAll(filepath.Dir(known), 0o700); err != nil {
		return ref, fmt.Errorf("denoised recording: %w", err)
	}
	if err := os.WriteFile(known, []byte(ref.String()), 0o600); err != nil {
		return ref, fmt.Errorf("denoised recording: %w", err)
	}
	return ref, nil
}
