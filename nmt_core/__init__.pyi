from nmt_core.config import PipelineConfig as PipelineConfig
from nmt_core.recipes.recipe import load_recipe as load_recipe
from nmt_core.search.translation import Translation as Translation
from nmt_core.stages.stage import Stage as Stage
from nmt_core.stages.stage import run_stage as run_stage
from nmt_core.stages.table import STAGES as STAGES
from nmt_core.store.artifacts import Store as Store
from nmt_core.translator import Translator as Translator
