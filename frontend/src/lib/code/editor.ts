/**
 * The CodeMirror set-up, loaded only when an editor is shown. Screens use
 * Editor.svelte; this file is for its options.
 */
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript, javascriptLanguage } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { HighlightStyle, bracketMatching, foldGutter, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, type Extension } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Problem } from "./types";

const highlight = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.bool, tags.null], color: "var(--syn-keyword)" },
  { tag: [tags.string, tags.regexp, tags.special(tags.string)], color: "var(--syn-string)" },
  { tag: tags.number, color: "var(--syn-number)" },
  { tag: tags.comment, color: "var(--syn-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.typeName, tags.className], color: "var(--syn-name)" },
  { tag: tags.propertyName, color: "var(--syn-prop)" },
]);

const look = EditorView.theme({
  "&": { height: "100%", fontSize: "12.5px", backgroundColor: "var(--bg)", color: "var(--text)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  "&.cm-focused": { outline: "none" },
  ".cm-gutters": { backgroundColor: "var(--bg)", color: "var(--text-3)", border: "none" },
  ".cm-activeLine": { backgroundColor: "var(--bg-hover)" },
  ".cm-activeLineGutter": { backgroundColor: "transparent" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft)" },
  ".cm-matchingBracket": { backgroundColor: "var(--bg-active) !important", outline: "1px solid var(--border-strong)" },
  ".cm-tooltip": { backgroundColor: "var(--bg-raised)", color: "var(--text)", border: "1px solid var(--border-strong)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--bg-active)", color: "var(--text)" },
  ".cm-panels": { backgroundColor: "var(--bg-sunken)", color: "var(--text)" },
  ".cm-foldPlaceholder": { backgroundColor: "var(--n3)", border: "none", color: "var(--text-2)" },
});

export interface EditorOptions {
  parent: HTMLElement;
  value: string;
  language: "typescript" | "javascript" | "json" | "text";
  label: string;
  placeholder: string;
  readonly: boolean;
  completions: CompletionSource | undefined;
  onchange(value: string): void;
  /** Returns true if it handled the key. */
  onsubmit(): boolean;
}

export interface EditorHandle {
  set(value: string): void;
  language(l: EditorOptions["language"]): void;
  readonly(on: boolean): void;
  problems(list: readonly Problem[]): void;
  focus(): void;
  /** Moves the cursor to a line and column, both starting at 1. */
  goto(line: number, column: number): void;
  destroy(): void;
}

function languageOf(l: EditorOptions["language"], completions: CompletionSource | undefined): Extension {
  if (l === "json") return json();
  if (l === "text") return [];
  const base = javascript({ typescript: l === "typescript" });
  return completions ? [base, javascriptLanguage.data.of({ autocomplete: completions })] : base;
}

export function createEditor(o: EditorOptions): EditorHandle {
  const language = new Compartment();
  const editable = new Compartment();
  const lock = (on: boolean): Extension => [EditorState.readOnly.of(on)];
  let silent = false;
  const view = new EditorView({
    parent: o.parent,
    state: EditorState.create({
      doc: o.value,
      extensions: [
        lineNumbers(),
        lintGutter(),
        foldGutter({ openText: "⌄", closedText: "›" }),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        autocompletion(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        syntaxHighlighting(highlight),
        look,
        language.of(languageOf(o.language, o.completions)),
        editable.of(lock(o.readonly)),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": o.label, tabindex: "0" }),
        o.placeholder ? placeholder(o.placeholder) : [],
        keymap.of([
          { key: "Mod-Enter", run: () => o.onsubmit() },
          // Escape leaves the editor, so that Tab does not trap keyboard users.
          { key: "Escape", run: (v) => (v.contentDOM.blur(), true) },
          ...closeBracketsKeymap,
          ...defaultKeymap,
          ...searchKeymap,
          ...historyKeymap,
          ...completionKeymap,
          indentWithTab,
        ]),
        EditorView.updateListener.of((u) => {
          if (u.docChanged && !silent) o.onchange(u.state.doc.toString());
        }),
      ],
    }),
  });
  const offset = (line: number, column: number): number => {
    const l = view.state.doc.line(Math.min(Math.max(1, line), view.state.doc.lines));
    return Math.min(l.to, l.from + Math.max(0, column - 1));
  };
  return {
    set(value) {
      if (value === view.state.doc.toString()) return;
      silent = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } });
      silent = false;
    },
    language: (l) => view.dispatch({ effects: language.reconfigure(languageOf(l, o.completions)) }),
    readonly: (on) => view.dispatch({ effects: editable.reconfigure(lock(on)) }),
    problems(list) {
      const diagnostics = list.map((p): Diagnostic => {
        const from = offset(p.line, p.column);
        const to = p.endLine ? offset(p.endLine, p.endColumn ?? 1) : Math.min(view.state.doc.lineAt(from).to, from + 1);
        return { from, to: Math.max(from, to), severity: p.severity, message: p.message };
      });
      view.dispatch(setDiagnostics(view.state, diagnostics));
    },
    focus: () => view.focus(),
    goto(line, column) {
      const pos = offset(line, column);
      view.dispatch({ selection: { anchor: pos }, scrollIntoView: true });
      view.focus();
    },
    destroy: () => view.destroy(),
  };
}
