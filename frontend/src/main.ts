import { mount } from "svelte";
import App from "./App.svelte";
import { language } from "./lib/i18n";
import { theme } from "./lib/ui/theme.svelte";
import "./styles/base.css";
import "./styles/primitives.css";

theme.listen();
language.listen();
const target = document.getElementById("app");
if (target) mount(App, { target });
