// The line at the bottom: the command of what is selected, and the keys that work here.
import { Kbd, Text } from "../parts/basic";
import { command, hints, keyOf } from "../state/keys";

export const Keyline = () => (
  <footer class="keys" aria-label="Keys and command">
    <span class="keys__cmd">
      <span class="keys__prompt" aria-hidden="true">
        $
      </span>
      <code>
        <Text value={command.value} />
      </code>
      <kbd>y</kbd>
      <span>copy</span>
    </span>
    <span class="keys__hints">
      {hints.value.map(([ids, says]) => (
        <span key={ids}>
          {ids.split(" ").map((id) => (
            <Kbd key={id} keys={keyOf(id)} />
          ))}
          {says}
        </span>
      ))}
      <span>
        <kbd>?</kbd>all keys
      </span>
    </span>
  </footer>
);
