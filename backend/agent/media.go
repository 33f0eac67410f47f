package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"helix/backend/callable"
	"helix/backend/permission"
	"helix/backend/providers"
)

// mediaTools returns the tools that exchange files between a chat and the workspace.
func (s *Service) mediaTools() []tool {
	if s.o.Files == nil {
		return nil
	}
	return []tool{{
		core: true, tier: permission.SideEffecting, info: callable.Info{Name: "attachment_save", Effects: callable.Effects{Idempotent: true, Destructive: true}},
		decl: providers.ToolDecl{Name: "attachment_save", Description: "Saves a file of this conversation, an attachment or a long result, as a file below /shared or /tmp. A file that is there is replaced and can be restored.", Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["handle","path"],"properties":{"handle":{"type":"string","pattern":"^[0-9a-f]{16,64}$"},"path":{"type":"string","minLength":1,"maxLength":4096}}}`)},
		own: func(ctx context.Context, l *live, call *toolIntent, args json.RawMessage) (ownResult, error) {
			return typed(func(ctx context.Context, l *live, in struct{ Handle, Path string }) (ownResult, error) {
				a, err := s.blobOf(ctx, l.id, in.Handle)
				if err != nil {
					return ownResult{}, err
				}
				data, err := s.readBlob(a.Blob)
				if err != nil {
					return ownResult{}, err
				}
				value, err := s.o.Files.Save(ctx, l.request(call), in.Path, data)
				return ownResult{value: value}, err
			})(ctx, l, args)
		},
	}, {
		// Showing a file twice is harmless, but the file may leave this computer with the chat.
		core: true, info: callable.Info{Name: "send_media", Effects: callable.Effects{ReadOnly: true, Idempotent: true, OpenWorld: true}},
		decl: providers.ToolDecl{Name: "send_media", Description: "Shows a file of the workspace, such as an image, to the person as a part of this conversation.", Input: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{"path":{"type":"string","minLength":1,"maxLength":4096},"text":{"type":"string","maxLength":1000,"description":"What stands below it."}}}`)},
		own: func(ctx context.Context, l *live, call *toolIntent, args json.RawMessage) (ownResult, error) {
			return typed(func(ctx context.Context, l *live, in struct{ Path, Text string }) (ownResult, error) {
				data, err := s.o.Files.Load(ctx, l.request(call), in.Path, maxAttachment)
				if err != nil {
					return ownResult{}, err
				}
				ref, err := s.db.Blobs().PutBytes(ctx, data)
				if err != nil {
					return ownResult{}, err
				}
				kind, _, _ := strings.Cut(http.DetectContentType(data), ";")
				sent := &mediaSent{CallID: call.CallID, File: Attachment{Blob: ref.String(), Name: attachmentName(in.Path), Mime: kind, Bytes: int64(len(data))}, Text: s.o.Scrub(ctx, in.Text)}
				return ownResult{value: map[string]any{"shown": true, "bytes": len(data), "handle": sent.File.handle()}, also: []payload{sent}, private: true}, nil
			})(ctx, l, args)
		},
	}}
}

// request is a call of the turn to a part of Helix that the agent uses directly.
func (l *live) request(call *toolIntent) callable.Request {
	return callable.Request{
		Key: call.Key, Attempt: 1, Timeout: toolTimeout,
		Caller: callable.Caller{Kind: string(Kind), ID: l.state.Created.Agent, Label: agentTitle(l.state.Created.Agent), Run: l.state.Turn.ID, Step: call.Tool, Authority: l.caller},
	}
}
