package backend

import (
	"helix/backend/audit"
	"helix/backend/gateway"
	"helix/backend/permission"
	"helix/backend/tools"
	"helix/backend/wasmtools"
)

func registerRights(b *Backend, a *gateway.API) {
	p, l := b.Permission, b.Audit
	gateway.Handle(a, "approvals.list", gateway.Read, p.ListApprovals)
	gateway.Handle(a, "approvals.get", gateway.Read, p.GetApproval)
	gateway.Handle(a, "approvals.decide", gateway.Approve, p.AnswerApproval)
	gateway.Handle(a, "permissions.list", gateway.Read, p.List)
	gateway.Handle(a, "permissions.revoke", gateway.Write, p.Revoke)
	gateway.Handle(a, "permissions.preview", gateway.Read, b.Callables.Preview)
	gateway.Handle(a, "permissions.diff", gateway.Read, b.Callables.Diff)
	gateway.Handle(a, "audit.list", gateway.Read, l.List)
	gateway.Handle(a, "audit.get", gateway.Read, l.Get)
	gateway.Handle(a, "audit.verify", gateway.Read, l.Verify, gateway.Deadline(hour))
	gateway.Handle(a, "audit.accept", gateway.Admin, l.Accept, gateway.Deadline(hour))
	gateway.Handle(a, "audit.export", gateway.Admin, pathParam(b, true, func(p *audit.ExportParams) *string { return &p.Path }, l.Export), gateway.DocumentedBy(l.Export), gateway.Deadline(hour))
	gateway.Handle(a, "audit.device_key", gateway.Read, l.DeviceKey)
	gateway.Handle(a, "audit.erase_details", gateway.Admin, l.EraseDetails, gateway.Deadline(hour))

	gateway.Forward[permission.ApprovalChanged](a, "approvals.changed")
	gateway.Forward[permission.Changed](a, "permissions.changed")
	gateway.Forward[audit.Appended](a, "audit.appended")
}

func registerTools(b *Backend, a *gateway.API) {
	t := b.Tools
	gateway.Handle(a, "tools.execute_custom", gateway.Write, t.Execute, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "tools.get_metadata", gateway.Read, t.Metadata)
	gateway.Handle(a, "tools.list", gateway.Read, t.List)
	gateway.Handle(a, "tools.get", gateway.Read, t.Get)
	gateway.Handle(a, "tools.create", gateway.Write, t.Create)
	gateway.Handle(a, "tools.update", gateway.Write, t.Update)
	gateway.Handle(a, "tools.set_enabled", gateway.Write, t.SetEnabled)
	gateway.Handle(a, "tools.delete", gateway.Write, t.Delete)
	gateway.Handle(a, "tools.restore", gateway.Write, t.Restore)
	gateway.Handle(a, "tools.clone", gateway.Write, t.Clone)
	gateway.Handle(a, "tools.validate", gateway.Read, t.Validate)
	gateway.Handle(a, "tools.versions", gateway.Read, t.Versions)
	gateway.Handle(a, "tools.diff", gateway.Read, t.Diff)
	gateway.Handle(a, "tools.rollback", gateway.Write, t.Rollback)
	gateway.Handle(a, "tools.usage", gateway.Read, t.Usage)
	gateway.Handle(a, "tools.search", gateway.Read, t.Search)
	gateway.Handle(a, "tools.sign", gateway.Write, t.Sign)
	gateway.Handle(a, "tools.signers", gateway.Read, t.Signers)
	gateway.Handle(a, "tools.trust_signer", gateway.Approve, t.TrustSigner)
	gateway.Handle(a, "tools.secret_set", gateway.Approve, t.SecretSet)
	gateway.Handle(a, "tools.secret_delete", gateway.Write, t.SecretDelete)
	gateway.Handle(a, "tools.secrets", gateway.Read, t.Secrets)
	gateway.Handle(a, "tools.state", gateway.Read, t.State)
	gateway.Handle(a, "tools.state_clear", gateway.Write, t.StateClear)
	gateway.Handle(a, "tools.state_restore", gateway.Write, t.StateRestore)
	gateway.Handle(a, "tools.audit", gateway.Read, t.Audit)
	gateway.Handle(a, "tools.templates", gateway.Read, t.Templates)
	gateway.Handle(a, "tools.export", gateway.Read, pathParam(b, true, func(p *tools.ExportParams) *string { return &p.Path }, t.Export), gateway.DocumentedBy(t.Export))
	gateway.Handle(a, "tools.import", gateway.Write, t.Import, gateway.Costly())
	gateway.Handle(a, "tools.share", gateway.Write, t.Share)
	gateway.Handle(a, "tools.unshare", gateway.Write, t.Unshare)
	gateway.Handle(a, "tools.shares", gateway.Read, t.Shares)
	gateway.Handle(a, "tools.resolve_share", gateway.Read, t.ResolveShare)
	gateway.Handle(a, "tools.capabilities", gateway.Read, t.Capabilities)
	gateway.Handle(a, "tools.cancel", gateway.Write, t.Cancel)

	gateway.Alias(a, "tools.execute", "tools.execute_custom")
	gateway.Alias(a, "tools.run", "tools.execute_custom")
	gateway.Alias(a, "tools.metadata", "tools.get_metadata")
	gateway.Alias(a, "tools.list_custom", "tools.list")
	gateway.Alias(a, "tools.create_custom", "tools.create")
	gateway.Alias(a, "tools.update_custom", "tools.update")
	gateway.Alias(a, "tools.delete_custom", "tools.delete")
	gateway.Alias(a, "tools.usage_history", "tools.usage")
	gateway.Alias(a, "tools.marketplace", "tools.search")

	gateway.Forward[tools.Changed](a, "tools.changed")
	gateway.Forward[tools.Execution](a, "tools.execution")
	gateway.Forward[tools.Suspended](a, "tools.suspended")
}

func registerSkills(b *Backend, a *gateway.API) {
	t, w := b.Tools, b.WasmTools
	gateway.Handle(a, "sandbox.status", gateway.Read, w.SandboxStatus)
	gateway.Handle(a, "sandbox.clear_cache", gateway.Write, w.SandboxClearCache)
	gateway.Handle(a, "sandbox.run", gateway.Approve, t.RunCode, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "sandbox.bench", gateway.Write, b.Sandbox.Bench, gateway.Costly(), gateway.Deadline(runLimit))

	gateway.Handle(a, "skills.execute", gateway.Write, b.ExecuteSkill, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "skills.create_wasm", gateway.Write, w.CreateWasm, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "skills.validate_wasm", gateway.Read, w.ValidateWasm, gateway.Costly(), gateway.Deadline(runLimit))
	gateway.Handle(a, "skills.upload_wasm", gateway.Write, w.UploadWasm)
	gateway.Handle(a, "skills.list_wasm", gateway.Read, w.ListWasm)
	gateway.Handle(a, "skills.get_wasm", gateway.Read, w.GetWasm)
	gateway.Handle(a, "skills.update_wasm", gateway.Write, w.UpdateWasm, gateway.Deadline(runLimit))
	gateway.Handle(a, "skills.delete_wasm", gateway.Write, w.DeleteWasm)
	gateway.Handle(a, "skills.restore_wasm", gateway.Write, w.RestoreWasm)
	gateway.Handle(a, "skills.sign_wasm", gateway.Approve, w.SignWasm)
	gateway.Handle(a, "skills.wasm_executions", gateway.Read, t.WasmExecutions)

	gateway.Handle(a, "workspace.status", gateway.Read, b.CoreTools.Status)
	gateway.Handle(a, "workspace.undo", gateway.Write, b.CoreTools.Undo)

	gateway.Forward[wasmtools.SandboxChanged](a, "sandbox.status_changed", gateway.Everyone())
	gateway.Forward[tools.SkillExecutionChanged](a, "skills.execution_changed")
	gateway.Forward[wasmtools.WasmChanged](a, "skills.wasm_changed")
}
