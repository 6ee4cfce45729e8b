// What only this browser remembers, and signing out.
import { Button, Seg } from "../../parts/basic";
import { diffLayout, theme } from "../../state/look";
import { act } from "../../state/keys";
import { signOut } from "../../state/session";

export const Look = () => (
  <>
    <h2 class="h">This browser</h2>
    <dl class="around">
      <div>
        <dt>Theme</dt>
        <dd>
          <Seg
            says="Theme"
            value={theme.value}
            onPick={(value) => {
              theme.value = value;
            }}
            options={[
              { value: "system", label: "As the system" },
              { value: "light", label: "Light" },
              { value: "dark", label: "Dark" },
            ]}
          />
        </dd>
      </div>
      <div>
        <dt>Differences</dt>
        <dd>
          <Seg
            says="Differences"
            value={diffLayout.value}
            onPick={(value) => {
              diffLayout.value = value;
            }}
            options={[
              { value: "split", label: "Side by side" },
              { value: "unified", label: "One column" },
            ]}
          />
        </dd>
      </div>
      <div>
        <dt>Keys</dt>
        <dd>
          <Button small cap="?" onClick={() => act("help")}>
            Show all keys
          </Button>
        </dd>
      </div>
      <div>
        <dt>Signed in</dt>
        <dd>
          <Button small onClick={() => void signOut()}>
            Sign out
          </Button>{" "}
          <span class="faint">
            Every tab of this browser; <code>holm ui</code> signs in again.
          </span>
        </dd>
      </div>
    </dl>
  </>
);
