"""Run every notebook on a fresh kernel and store its outputs, without what differs each time.

The README's picture is drawn anew, too.

The address of a widget is left out: it would name a model that no longer exists when the notebook
is opened, and JupyterLab shows the picture that stands beside it instead.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from leaselab import Lab, scenarios

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def store_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=60,
        kernel_name="python3",
        resources={"metadata": {"path": path.parent}},
        store_widget_state=False,
    )
    client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        outputs = []
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_VIEW, None)
            if outputs and output.output_type == outputs[-1].output_type == "stream":
                outputs[-1].text += output.text  # how a kernel cuts its output up is chance
            else:
                outputs.append(output)
        if cell.cell_type == "code":
            cell.outputs = outputs
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, path)


if __name__ == "__main__":
    folder = Path(__file__).parent.parent / "notebooks"
    for path in [Path(name) for name in sys.argv[1:]] or sorted(folder.glob("*.ipynb")):
        print(path.name, flush=True)
        store_outputs(path)
    picture = folder / "images" / "stale_commit.png"
    picture.parent.mkdir(exist_ok=True)
    picture.write_bytes(Lab(scenarios["stale_commit"]).play_to(32).chart().png())
